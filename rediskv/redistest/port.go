package redistest

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

// Ports are taken from below the ranges that Linux (32768) and macOS (49152)
// give to outgoing connections: while a killed server is away, no connection
// of the test can be given its port, which would make its restart fail.
const (
	firstPort = 20000
	portCount = 12000
)

var portsTried atomic.Int64

// freeAddr is a loopback address on which nothing listened a moment ago.
func freeAddr() (string, error) {
	// The test binaries of several packages run at the same time: each starts
	// its search at another place.
	start := int64(os.Getpid()) * 97
	for range portCount {
		number := firstPort + (start+portsTried.Add(1))%portCount
		addr := net.JoinHostPort("127.0.0.1", strconv.FormatInt(number, 10))
		listener, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		return addr, listener.Close()
	}
	return "", errors.New("find a free port on loopback: all are taken")
}
