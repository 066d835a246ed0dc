//go:build !unix

package main

import "errors"

// limitProcess cannot bound a process here, and so nothing of unknown origin is
// compiled.
func limitProcess(checkLimits) error {
	return errors.New("modules can be examined on Unix only: elsewhere no limit holds a process")
}
