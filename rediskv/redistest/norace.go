//go:build !race

package redistest

// RaceDetector is whether it is on.
const RaceDetector = false
