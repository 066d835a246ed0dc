//go:build !race

package examine

// slowness is how many times as long this program takes for everything.
const slowness = 1
