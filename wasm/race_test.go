//go:build race

package wasm_test

// raceEnabled: the race detector makes pools lose what they are given, so
// that allocations cannot be counted.
const raceEnabled = true
