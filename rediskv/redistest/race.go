//go:build race

package redistest

// RaceDetector is whether it is on. Pools then lose what they are given, so
// that most calls of a rule make a new instance, fifty times as slowly.
const RaceDetector = true
