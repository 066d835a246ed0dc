//go:build !unix

package examine

import "errors"

// limitProcess cannot bound a process here, and so nothing of unknown origin is
// compiled.
func limitProcess(Limits) error {
	return errors.New("modules can be examined on Unix only: elsewhere no limit holds a process")
}
