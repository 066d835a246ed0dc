//go:build race

package examine

// slowness is how many times as long this program takes for everything: under the
// race detector up to ten times.
const slowness = 4
