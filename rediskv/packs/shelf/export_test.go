package shelf

import "os"

// OnSync calls f instead of fsync. f can call it, or fail.
func (s *Directory) OnSync(f func(*os.File) error) { s.sync = f }
