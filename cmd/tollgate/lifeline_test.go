package main

import (
	"io"
	"os"
)

// lifelineVariable says that file 3 is a pipe whose other end the test holds.
// A program that a test started ends with the test process, also when that is
// killed or runs into the time limit and no clean-up runs.
const lifelineVariable = "TOLLGATE_TEST_LIFELINE"

func init() {
	if os.Getenv(lifelineVariable) == "" {
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "lifeline"))
		os.Exit(2)
	}()
}
