package redistest

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
)

// Ports are taken from below the ranges that Linux (32768) and macOS (49152)
// give to outgoing connections: while a killed server is away, no connection
// of the test can be given its port, which would make its restart fail.
const (
	firstPort = 20000
	portCount = 12000
	blockSize = 100
	// mostBlocks is how many a process takes before it uses its ports again.
	mostBlocks = 10
)

// ports are this process' own: the test binaries of several packages run at the
// same time, and none may take what another has let go of for a moment.
var ports portBlocks

type portBlocks struct {
	mu     sync.Mutex
	blocks []int          // by their first ports
	held   []net.Listener // on those, for as long as this process lives
	next   int            // of the ports in all blocks
}

// FreeAddr is a loopback address on which nothing listens. No other test
// process is given it, and this one only after hundreds of others.
func FreeAddr() (string, error) {
	ports.mu.Lock()
	defer ports.mu.Unlock()
	for {
		// Each block has its first port for itself.
		for tried := 0; tried < len(ports.blocks)*(blockSize-1); tried++ {
			if ports.next == len(ports.blocks)*(blockSize-1) {
				if len(ports.blocks) < mostBlocks && ports.take() {
					continue
				}
				ports.next = 0
			}
			number := ports.blocks[ports.next/(blockSize-1)] + 1 + ports.next%(blockSize-1)
			ports.next++
			if listener, err := listenOn(number); err == nil {
				return listener.Addr().String(), listener.Close()
			}
		}
		if !ports.take() {
			return "", errors.New("find a free port on loopback: all are taken")
		}
	}
}

// take makes a block of ports this process' own.
func (p *portBlocks) take() bool {
	const count = portCount / blockSize
	for i := range count {
		first := firstPort + (os.Getpid()+i)%count*blockSize
		if listener, err := listenOn(first); err == nil {
			p.blocks, p.held = append(p.blocks, first), append(p.held, listener)
			return true
		}
	}
	return false
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}
