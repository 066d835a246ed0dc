package rdb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Stream is a log with its groups of consumers.
type Stream struct {
	Entries []Entry
	Last    ID // the highest that there was
	// Deleted is the highest that was deleted, and Added how many there have ever been.
	Deleted ID
	Added   uint64
	Groups  []Group
}

// ID names an entry of a stream.
type ID struct{ Ms, Seq uint64 }

func (id ID) String() string { return fmt.Sprintf("%d-%d", id.Ms, id.Seq) }

// Entry of a stream has fields, each with its value behind it, in their order.
type Entry struct {
	ID     ID
	Fields []string
}

// Group of consumers.
type Group struct {
	Name      string
	Last      ID    // handed out
	Read      int64 // how many were; below 0: not known
	Consumers []Consumer
}

// Consumer of a group, with the entries that it has not acknowledged.
type Consumer struct {
	Name    string
	Pending []Pending
}

// Pending is an entry that is in a consumer's hands.
type Pending struct {
	ID        ID
	Delivered int64 // when, Unix milliseconds
	Count     int64 // how often
}

func (d *decoder) stream(active bool) (*Stream, error) {
	s := &Stream{}
	nodes, err := d.length()
	if err != nil {
		return nil, err
	}
	for range nodes {
		if err := d.node(s); err != nil {
			return nil, err
		}
	}
	var first ID // the first entry says it, too
	length, err := d.length()
	for _, id := range []*ID{&s.Last, &first, &s.Deleted} {
		if err == nil {
			id.Ms, err = d.length()
		}
		if err == nil {
			id.Seq, err = d.length()
		}
	}
	if err == nil {
		s.Added, err = d.length()
	}
	if err != nil {
		return nil, err
	}
	if length != uint64(len(s.Entries)) {
		return nil, fmt.Errorf("a stream has %d entries and says %d", len(s.Entries), length)
	}
	groups, err := d.length()
	if err != nil {
		return nil, err
	}
	for range groups {
		g, err := d.group(active)
		if err != nil {
			return nil, err
		}
		s.Groups = append(s.Groups, g)
	}
	return s, nil
}

// node reads a piece of a stream: the fields that most of its entries have, and these
// by how far their ids are behind that of the piece.
func (d *decoder) node(s *Stream) error {
	const deleted, same = 1, 2
	key, err := d.blob()
	if err != nil {
		return err
	}
	if len(key) != 16 {
		return errors.New("a piece of a stream has no id")
	}
	base := idIn(key)
	b, err := d.blob()
	if err != nil {
		return err
	}
	p, err := newPack(b)
	if err != nil {
		return err
	}
	p.number() // entries
	p.number() // and deleted ones
	names := make([]string, p.size())
	for i := range names {
		names[i] = p.next()
	}
	p.number()
	for !p.ended() {
		flags := p.number()
		id := ID{base.Ms + uint64(p.number()), base.Seq + uint64(p.number())}
		var fields []string
		if flags&same != 0 {
			for _, name := range names {
				fields = append(fields, name, p.next())
			}
		} else {
			for range p.size() {
				fields = append(fields, p.next(), p.next())
			}
		}
		p.number() // how many entries of the listpack these were
		if flags&deleted == 0 && p.err == nil {
			s.Entries = append(s.Entries, Entry{id, fields})
		}
	}
	return p.err
}

// size is a number of entries that follow.
func (p *pack) size() int {
	n := p.number()
	if p.err == nil && (n < 0 || n > int64(len(p.rest))) {
		p.err = errPack
	}
	if p.err != nil {
		return 0
	}
	return int(n)
}

func idIn(b []byte) ID { return ID{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])} }

func (d *decoder) group(active bool) (g Group, err error) {
	if g.Name, err = d.text(); err != nil {
		return g, err
	}
	var read uint64
	for _, n := range []*uint64{&g.Last.Ms, &g.Last.Seq, &read} {
		if *n, err = d.length(); err != nil {
			return g, err
		}
	}
	g.Read = int64(read)
	if read > math.MaxInt64 {
		g.Read = -1
	}
	pending, err := d.pending()
	if err != nil {
		return g, err
	}
	consumers, err := d.length()
	if err != nil {
		return g, err
	}
	for range consumers {
		c, err := d.consumer(active, pending)
		if err != nil {
			return g, err
		}
		g.Consumers = append(g.Consumers, c)
	}
	return g, nil
}

// pending are the entries that consumers of a group have in their hands.
func (d *decoder) pending() (map[ID]Pending, error) {
	n, err := d.length()
	if err != nil {
		return nil, err
	}
	all := map[ID]Pending{}
	for range n {
		b, err := d.bytes(24)
		if err != nil {
			return nil, err
		}
		count, err := d.length()
		if err != nil {
			return nil, err
		}
		id := idIn(b)
		all[id] = Pending{id, int64(binary.LittleEndian.Uint64(b[16:])), int64(count)}
	}
	return all, nil
}

func (d *decoder) consumer(active bool, pending map[ID]Pending) (c Consumer, err error) {
	if c.Name, err = d.text(); err != nil {
		return c, err
	}
	times := uint64(8) // when it was last seen,
	if active {
		times += 8 // and when it last got something
	}
	if _, err = d.bytes(times); err != nil {
		return c, err
	}
	n, err := d.length()
	if err != nil {
		return c, err
	}
	for range n {
		b, err := d.bytes(16)
		if err != nil {
			return c, err
		}
		p, ok := pending[idIn(b)]
		if !ok {
			return c, errors.New("a consumer has an entry that its group has not handed out")
		}
		c.Pending = append(c.Pending, p)
	}
	return c, nil
}
