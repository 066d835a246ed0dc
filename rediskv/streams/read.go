package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/script"
)

// Query selects a part of a log, and may filter what is looked at.
type Query struct {
	Log         string
	Descending  bool
	First, Last string // in the direction of the query, as XRANGE or XREVRANGE takes them
	Count       int    // how many entries are looked at, at most

	// GrantKeys and GrantArgs are the caller's; none is compared without a version.
	rediskv.GrantKeys
	rediskv.GrantArgs
	// Filters of events: types and accounts between commas, and an id that is named.
	Types, Accounts, NamedID string
	// Resumed is the place of an entry to be returned as well: the one from which on the
	// query goes on. Where that is - as First, it is the first one of the log.
	Resumed string
}

// Page is what was read.
type Page struct {
	Entries     []redis.XMessage // those that match
	Looked      int              // how many were looked at: fewer than asked for only at the end
	Last, There *redis.XMessage  // the last one that was looked at, and the resumed one
}

type readLogKeys struct {
	rediskv.GrantKeys
	Log, Directory string
}

type readLogArgs struct {
	rediskv.GrantArgs
	Command, First, Last              string
	Count                             int
	Types, Accounts, NamedID, Resumed string
}

var scriptReadLog = script.NewRead[readLogKeys, readLogArgs](lua, "read_log")

// Read reads a page: in one round trip where it begins in the head of the log, or in two.
func Read(ctx context.Context, db *rediskv.DB, q Query) (*Page, error) {
	keys := readLogKeys{q.GrantKeys, q.Log, Directory(q.Log)}
	if q.Grant == "" {
		keys.Grant, keys.Rate = q.Log, q.Log
	}
	args := readLogArgs{GrantArgs: q.GrantArgs, Types: q.Types, Accounts: q.Accounts, NamedID: q.NamedID, Resumed: q.Resumed}
	if args.Command, args.First, args.Last = "XRANGE", lower(q.First), upper(q.Last); q.Descending {
		args.Command, args.First, args.Last = "XREVRANGE", upper(q.First), lower(q.Last)
	}
	p := new(Page)
	var segments []string
	for {
		args.Count = q.Count - p.Looked
		inv := scriptReadLog.With(keys, args)
		inv.Keys = append(inv.Keys, segments...)
		outcome, rest, err := db.Run(ctx, inv)
		if err != nil {
			return nil, err
		}
		segments = nil
		switch outcome {
		case "older":
			list, _ := rest[0].([]any)
			for _, first := range list {
				id, _ := first.(string)
				segments = append(segments, Segment(q.Log, id))
			}
			continue
		case "read":
			return p, p.add(rest)
		case "parts":
		default:
			return nil, script.Unexpected(inv, outcome)
		}
		low, high := args.First, args.Last
		if q.Descending {
			low, high = high, low
		}
		if err := p.addParts(&q, args.Resumed, low, high, rest); err != nil {
			return nil, err
		}
		args.Resumed = ""
		next, _ := rest[2].(string)
		if args.First = next; q.Descending && next != "" {
			args.First = Previous(next)
		}
		if next == "" || p.Looked >= q.Count || q.Descending && low != "-" && Less(args.First, low) {
			return p, nil
		}
	}
}

// add takes what a script has read.
func (p *Page) add(rest []any) error {
	list, _ := rest[0].([]any)
	for _, e := range list {
		m, err := MessageOf(e)
		if err != nil {
			return err
		}
		p.Entries = append(p.Entries, m)
	}
	looked, _ := rest[1].(int64)
	p.Looked += int(looked)
	for at, entry := range map[**redis.XMessage]any{&p.Last: rest[2], &p.There: rest[3]} {
		if entry != nil {
			m, err := MessageOf(entry)
			if err != nil {
				return err
			}
			*at = &m
		}
	}
	return nil
}

// addParts takes segments, and the head, as a script returns them: what is in them of a
// range, or, where they are packed, all of it.
func (p *Page) addParts(q *Query, resumed, low, high string, rest []any) error {
	if rest[0] != nil && resumed != "-" {
		m, err := MessageOf(rest[0])
		if err != nil {
			return err
		}
		p.There = &m
	}
	list, _ := rest[1].([]any)
	for _, one := range list {
		part, _ := one.([]any)
		if len(part) != 2 {
			return fmt.Errorf("redis: a part of a log has %d parts", len(part))
		}
		var entries []redis.XMessage
		if text, is := part[1].(string); is {
			first, _ := part[0].(string)
			segment := open(first, text)
			if resumed != "" && resumed != "-" && p.There == nil {
				for _, m := range segment.in(resumed, resumed) {
					p.There = &m
				}
			}
			if entries = segment.in(low, high); q.Descending {
				slices.Reverse(entries)
			}
		} else {
			raw, _ := part[1].([]any)
			for _, e := range raw {
				m, err := MessageOf(e)
				if err != nil {
					return err
				}
				entries = append(entries, m)
			}
		}
		for _, m := range entries {
			if p.Looked == q.Count {
				return nil
			}
			p.Looked, p.Last = p.Looked+1, &m
			if resumed == "-" && p.There == nil {
				p.There = &m
			}
			if q.Matches(m) {
				p.Entries = append(p.Entries, m)
			}
		}
	}
	return nil
}

// Matches reports whether the filters of a query let an entry through: the script does the
// same.
func (q *Query) Matches(m redis.XMessage) bool {
	in := func(list, name string) bool {
		return list == "" || strings.Contains(list, ","+rediskv.Text(m, name)+",")
	}
	return in(q.Types, "t") && in(q.Accounts, "a") && (q.NamedID == "" || strings.Contains(rediskv.Text(m, "b"), `"`+q.NamedID+`"`))
}

// Range is XRANGE of a log.
func Range(ctx context.Context, db *rediskv.DB, log, first, last string, count int) ([]redis.XMessage, error) {
	p, err := Read(ctx, db, Query{Log: log, First: first, Last: last, Count: count})
	if err != nil {
		return nil, err
	}
	return p.Entries, nil
}

// RevRange is XREVRANGE of a log. The last entry of all is in the head as long as there
// is one.
func RevRange(ctx context.Context, db *rediskv.DB, log, first, last string, count int) ([]redis.XMessage, error) {
	p, err := Read(ctx, db, Query{Log: log, Descending: true, First: first, Last: last, Count: count})
	if err != nil {
		return nil, err
	}
	return p.Entries, nil
}

// Counter counts the entries of a log, beside what else is read at the same moment: it
// asks until it is Done, as a rule once, and once more where there are segments.
type Counter struct {
	Log string

	oldest         string // the first segment, as it was when it was asked last
	packed         bool
	head, first    *redis.IntCmd
	beginning      *redis.StringCmd
	begins, newest *redis.XMessageSliceCmd
	length         int64
}

// Ask queues what is to be read.
func (c *Counter) Ask(ctx context.Context, pipe redis.Pipeliner) {
	c.head = pipe.XLen(ctx, c.Log)
	c.begins, c.newest = pipe.XRangeN(ctx, Directory(c.Log), "-", "+", 1), pipe.XRevRangeN(ctx, Directory(c.Log), "+", "-", 1)
	switch first := Segment(c.Log, c.oldest); {
	case c.oldest == "":
	case c.packed:
		c.beginning = pipe.GetRange(ctx, first, 0, 20)
	default:
		c.first = pipe.XLen(ctx, first)
	}
}

// Done takes the answers; it is false where it has to be asked again.
func (c *Counter) Done() bool {
	was := c.oldest
	c.oldest = ""
	for _, m := range c.begins.Val() {
		c.oldest, c.packed = m.ID, IsPacked(m)
	}
	if c.length = c.head.Val(); c.oldest == "" {
		return true
	}
	if c.oldest != was {
		return false
	}
	first := int64(0)
	if c.packed {
		n, _, _ := countIn(c.beginning.Val())
		first = int64(n)
	} else {
		first = c.first.Val()
	}
	c.length += first + through(c.newest.Val()[0]) - through(c.begins.Val()[0])
	return true
}

// Len is how many entries the log has.
func (c *Counter) Len() int64 { return c.length }

// through is how many entries have ever gone into segments up to the end of one.
func through(m redis.XMessage) int64 {
	n, _ := strconv.ParseInt(rediskv.Text(m, "n"), 10, 64) // a check says where it is none
	return n
}

// Extent is how far a segment goes.
type Extent struct {
	First, Last string // of its entries
	Entries     int64  // none, where it is not there
	Ends        string // the last of its entries, as the directory has it, of one that is packed

	first, last *redis.XMessageSliceCmd
	length      *redis.IntCmd
	text        *redis.StringCmd
}

// Ask queues what is to be read of the segment that an entry of the log's directory names.
func (e *Extent) Ask(ctx context.Context, pipe redis.Pipeliner, log string, named redis.XMessage) {
	key := Segment(log, named.ID)
	if e.Ends = rediskv.Text(named, "l"); IsPacked(named) {
		e.text = pipe.Get(ctx, key)
		return
	}
	e.first, e.last, e.length = pipe.XRangeN(ctx, key, "-", "+", 1), pipe.XRevRangeN(ctx, key, "+", "-", 1), pipe.XLen(ctx, key)
}

// Done takes the answers. The error says that the segment is damaged.
func (e *Extent) Done() error {
	var entries []redis.XMessage
	if e.text == nil {
		entries, e.Entries = append(e.first.Val(), e.last.Val()...), e.length.Val()
	} else if e.text.Err() == nil {
		var err error
		if entries, err = Unpack(e.text.Val()); err != nil {
			return err
		}
		e.Entries = int64(len(entries))
	}
	if n := len(entries); n > 0 {
		e.First, e.Last = entries[0].ID, entries[n-1].ID
	}
	return nil
}

// IsPacked reports whether a segment is packed, by its entry in the directory.
func IsPacked(m redis.XMessage) bool { return rediskv.Text(m, "l") != "" }

// Asked is a range of a log, upwards, that is read together with others.
type Asked struct {
	Log, First, Last string
	Count            int64
	Newest           bool // the last one is wanted alone
	Found            []redis.XMessage

	// In are entries of the directory that name the segments to be read.
	In []redis.XMessage

	times string // how often entries of the log were written anew
}

// Behind looks for ranges in the segments of logs, all in two round trips: what was not
// in a head before may be there now. What is in more than two segments is not found
// whole.
func Behind(ctx context.Context, client peer.Client, asked []*Asked) error {
	return new(Recent).Behind(ctx, client, asked)
}

// Recent keeps some packed segments of those that were read last, so that whoever reads a
// log from one end to the other in small parts unpacks each once. What has been trimmed of
// them meanwhile is still found. It is safe for concurrent use; the zero value keeps none.
type Recent struct{ segments *lru.Cache[string, *packed] }

// NewRecent keeps so many, each of up to Usual.Bytes.
func NewRecent(most int) *Recent {
	segments, err := lru.New[string, *packed](most)
	if err != nil {
		panic(err) // it is not positive
	}
	return &Recent{segments}
}

func (r *Recent) get(name string) *packed {
	if r.segments == nil {
		return nil
	}
	segment, _ := r.segments.Get(name)
	return segment
}

func (r *Recent) add(name string, segment *packed) {
	if r.segments != nil {
		r.segments.Add(name, segment)
	}
}

// named is how a segment is known: a Redis that has lost its last writes may cut another
// one that begins with the same entry, and entries may be written anew.
func (a *Asked) named(key string, m redis.XMessage) string {
	return key + " " + rediskv.Text(m, "l") + " " + a.times
}

// Behind is the function of this name.
func (r *Recent) Behind(ctx context.Context, client peer.Client, asked []*Asked) error {
	if len(asked) == 0 {
		return nil
	}
	pipe := client.Pipeline()
	found := make([]*redis.XMessageSliceCmd, 0, 2*len(asked))
	times := map[string]*redis.StringCmd{}
	for _, a := range asked {
		first, last := lower(a.First), upper(a.Last)
		if times[a.Log] == nil && r.segments != nil {
			times[a.Log] = pipe.Get(ctx, Rewritten(a.Log))
		}
		found = append(found, pipe.XRevRangeN(ctx, Directory(a.Log), first, "-", 1), pipe.XRangeN(ctx, Directory(a.Log), Next(first), last, 1))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, a := range asked {
		if of := times[a.Log]; of != nil {
			a.times = of.Val()
		}
		a.In = append(found[2*i].Val(), found[2*i+1].Val()...)
	}
	return r.within(ctx, client, asked)
}

// Within reads ranges in the segments that they are in, in one round trip.
func Within(ctx context.Context, client peer.Client, asked []*Asked) error {
	return new(Recent).within(ctx, client, asked)
}

func (r *Recent) within(ctx context.Context, client peer.Client, asked []*Asked) error {
	pipe := client.Pipeline()
	streams := map[*redis.XMessage]*redis.XMessageSliceCmd{}
	texts := map[string]*redis.StringCmd{} // many may be in one segment
	segments := map[string]*packed{}
	for _, a := range asked {
		for i := range a.In {
			m := &a.In[i]
			switch key := Segment(a.Log, m.ID); {
			case IsPacked(*m):
				if segments[key] == nil && texts[key] == nil {
					if segments[key] = r.get(a.named(key, *m)); segments[key] == nil {
						texts[key] = pipe.Get(ctx, key)
					}
				}
			case a.Newest:
				streams[m] = pipe.XRevRangeN(ctx, key, upper(a.Last), lower(a.First), 1)
			default:
				streams[m] = pipe.XRangeN(ctx, key, lower(a.First), upper(a.Last), a.Count)
			}
		}
	}
	if pipe.Len() > 0 {
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
	for _, a := range asked {
		for i := range a.In {
			key := Segment(a.Log, a.In[i].ID)
			var entries []redis.XMessage
			if stream := streams[&a.In[i]]; stream != nil {
				entries = stream.Val()
			} else if segment := segments[key]; segment != nil {
				entries = segment.in(lower(a.First), upper(a.Last))
			} else if texts[key].Err() == nil {
				segment = open(a.In[i].ID, texts[key].Val())
				segments[key] = segment
				r.add(a.named(key, a.In[i]), segment)
				entries = segment.in(lower(a.First), upper(a.Last))
			}
			if n := len(entries); a.Newest {
				entries = entries[max(0, n-1):]
			}
			a.Found = append(a.Found, entries[:min(len(entries), int(a.Count)-len(a.Found))]...)
		}
	}
	return nil
}
