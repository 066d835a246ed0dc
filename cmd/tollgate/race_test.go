//go:build race

package main

// raceEnabled: the race detector makes pools lose what they are given, so that
// most calls of a rule make a new instance, fifty times as slowly.
const raceEnabled = true
