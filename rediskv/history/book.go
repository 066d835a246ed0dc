package history

import (
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// remembered is of how many organizations of a partition it is known what was last
// acknowledged. Redis loses the end of what it did, so the latest show it first.
const remembered = 16

// Book is what this process knows of the partitions' histories. It is safe for
// concurrent use.
type Book struct {
	parts  []part
	unsure sync.Map // by partition: a finding of which nobody knows whether it is written
}

type part struct {
	key    string
	record atomic.Pointer[Record]

	mu    sync.Mutex
	acked *simplelru.LRU[string, int64] // within this history: positions, by organization
}

// NewBook is one in which nothing is known yet of partitions, whose records are at keys.
func NewBook(keys []string) *Book {
	b := &Book{parts: make([]part, len(keys))}
	for i := range b.parts {
		p := &b.parts[i]
		p.key = keys[i]
		p.record.Store(&Record{})
		p.acked, _ = simplelru.NewLRU[string, int64](remembered, nil) // an error is for a size below 1
	}
	return b
}

// Key is where the record of a partition is.
func (b *Book) Key(partition int) string { return b.parts[partition].key }

// Of is the record of a partition as it was last read; not to be changed.
func (b *Book) Of(partition int) *Record { return b.parts[partition].record.Load() }

// Undecided says whether a loss is known of any partition that nobody has accepted.
func (b *Book) Undecided() bool {
	for p := range b.parts {
		if b.Of(p).Loss != nil {
			return true
		}
	}
	return false
}

// Adopt takes a record that was read. What was acknowledged within another history
// means nothing in it.
func (b *Book) Adopt(partition int, r Record) {
	p := &b.parts[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.record.Load()
	if was.ID != r.ID {
		p.acked.Purge()
	}
	p.record.Store(&r)
}

// counted takes a record in which this process has been counted, unless another one
// has been read meanwhile.
func (b *Book) counted(partition int, r Record) {
	if known := b.Of(partition); known.ID == "" || known.ID == r.ID && r.follows(known) {
		b.Adopt(partition, r)
	}
}

// Acknowledged notes the position that Redis has acknowledged for an organization,
// within a history.
func (b *Book) Acknowledged(partition int, history, org string, position int64) {
	p := &b.parts[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.record.Load().ID != history {
		return
	}
	if was, _ := p.acked.Get(org); was < position {
		p.acked.Add(org, position)
	}
}

// mark is a position that was acknowledged.
type mark struct {
	org      string
	position int64
}

// marks are those of a partition.
func (b *Book) marks(partition int) (marks []mark) {
	p := &b.parts[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, org := range p.acked.Keys() {
		position, _ := p.acked.Peek(org)
		marks = append(marks, mark{org, position})
	}
	return marks
}
