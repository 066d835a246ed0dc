package handlers

import "context"

// preload reads, beside everything else, what quotes need of the organizations
// whose rules in force have been read, so that quotes go on while Redis is away.
// It never makes anybody wait: an instance is ready without it. What could not
// be read is read when Redis is back, with the next look.
func (s *Server) preload(ctx context.Context) {
	f := &s.following
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead = append(f.ahead, s.store.Stale()...)
	if f.preloading || len(f.ahead) == 0 {
		return
	}
	f.preloading = true
	f.loads.Go(func() {
		var err error
		for err == nil {
			f.mu.Lock()
			if len(f.ahead) == 0 {
				f.preloading = false
				f.mu.Unlock()
				return
			}
			org := f.ahead[0]
			f.ahead = f.ahead[1:]
			f.mu.Unlock()
			if err = s.store.Preload(ctx, org); err != nil {
				f.mu.Lock()
				f.ahead = append(f.ahead, org)
				f.preloading = false
				f.mu.Unlock()
			}
		}
	})
}
