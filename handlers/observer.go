package handlers

import "time"

// Observer is told what a Server does, as the program makes metrics of it. Many
// goroutines call it.
type Observer interface {
	Request(route string, status int, took time.Duration)
	Read(servedBy string) // that was answered by the primary or the replica, as Tollgate-Served-By says
	// RedisMemory is used_memory by maxmemory, of the fullest master; 0 without a
	// limit.
	RedisMemory(used float64)
}

type unobserved struct{}

func (unobserved) Request(string, int, time.Duration) {}
func (unobserved) Read(string)                        {}
func (unobserved) RedisMemory(float64)                {}
