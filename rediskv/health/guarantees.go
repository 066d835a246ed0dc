package health

import (
	"context"
	"strconv"
	"sync"

	"tollgate/rediskv/peer"
)

// Guarantees is what a Redis promises about the data in it.
type Guarantees struct {
	Version        string
	Mode           string // standalone, sentinel or cluster
	AOF            bool
	Fsync          string // always, everysec or no; empty when it does not say
	EvictionPolicy string // empty when it does not say
	Masters        int
	Replicas       int // of all masters
}

// Evicts reports whether Redis may throw payments away to make room.
func (g Guarantees) Evicts() bool {
	return g.EvictionPolicy != "" && g.EvictionPolicy != noEviction
}

const noEviction = "noeviction"

// guaranteesOf are those of all masters; where they differ, the weakest promise counts.
func guaranteesOf(servers []Server) (g Guarantees) {
	for _, s := range servers {
		f := s.Facts
		g.Version, g.Mode, g.Fsync = f["redis_version"], f["redis_mode"], f["appendfsync"]
		if g.EvictionPolicy == "" || g.EvictionPolicy == noEviction {
			g.EvictionPolicy = f["maxmemory_policy"]
		}
		g.AOF = f["aof_enabled"] == "1" && (g.Masters == 0 || g.AOF)
		g.Replicas += s.replicas()
		g.Masters++
	}
	return g
}

// Server is a master and what it says of itself.
type Server struct {
	Address string
	Facts   peer.Facts
}

func (s Server) replicas() int {
	n, _ := strconv.Atoi(s.Facts["connected_slaves"])
	return n
}

// Servers asks every master.
func (s *Store) Servers(ctx context.Context) (servers []Server, err error) {
	var mu sync.Mutex
	err = s.db.Timed(ctx, "inspect", func(ctx context.Context) error {
		return s.db.Masters(ctx, func(ctx context.Context, address string, master peer.Client) error {
			pipe := master.Pipeline()
			facts := peer.Ask(ctx, pipe)
			if _, err := pipe.Exec(ctx); err != nil && !peer.IsReply(err) {
				return err
			}
			said, err := facts()
			mu.Lock()
			defer mu.Unlock()
			servers = append(servers, Server{address, said})
			return err
		})
	})
	return servers, err
}

// Inspect says what Redis guarantees, and writes down what is wrong with it. A single
// server has said it when the Store was opened.
func (s *Store) Inspect(ctx context.Context) (Guarantees, error) {
	servers := []Server{{"", s.db.Greeted()}}
	if s.db.Greeted() == nil {
		var err error
		if servers, err = s.Servers(ctx); err != nil {
			return Guarantees{}, err
		}
	}
	s.judge(servers)
	return guaranteesOf(servers), nil
}
