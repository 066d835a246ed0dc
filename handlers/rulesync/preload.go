package rulesync

import "context"

// preload reads, beside everything else, what quotes need of the organizations
// whose rules in force have been read, so that quotes go on while Redis is away.
// It never makes anybody wait: an instance is ready without it. What could not
// be read is read when Redis is back, with the next look.
func (s *Sync) preload(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = append(s.ahead, s.Store.Stale()...)
	if s.preloading || len(s.ahead) == 0 {
		return
	}
	s.preloading = true
	s.loads.Go(func() {
		var err error
		for err == nil {
			s.mu.Lock()
			if len(s.ahead) == 0 {
				s.preloading = false
				s.mu.Unlock()
				return
			}
			org := s.ahead[0]
			s.ahead = s.ahead[1:]
			s.mu.Unlock()
			if err = s.Store.Preload(ctx, org); err != nil {
				s.mu.Lock()
				s.ahead = append(s.ahead, org)
				s.preloading = false
				s.mu.Unlock()
			}
		}
	})
}
