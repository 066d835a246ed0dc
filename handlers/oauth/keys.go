package oauth

import (
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"tollgate/handlers/auth"
)

// mostParsed bounds of how many clients an instance keeps the keys as they were parsed.
const mostParsed = 4096

// parsedKeys are keys of clients by the texts that they were parsed of. Nothing in it
// becomes stale: a client that has another key, or one less, has other texts.
type parsedKeys struct {
	mu   sync.Mutex
	keys *simplelru.LRU[string, *auth.ClientKeys]
}

// of are the keys of a client, stored as JWKs. In JSON a line feed is white space alone, so
// that no two lists of keys have one text and mean different keys.
func (p *parsedKeys) of(stored []string) (auth.ClientKeys, error) {
	text := strings.Join(stored, "\n\n")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		p.keys, _ = simplelru.NewLRU[string, *auth.ClientKeys](mostParsed, nil) // errs for sizes below 1 only
	}
	if keys, ok := p.keys.Get(text); ok {
		return *keys, nil
	}
	keys, err := PublicKeys(stored)
	if err == nil {
		p.keys.Add(text, &keys)
	}
	return keys, err
}
