package streams

import (
	"context"
	"strconv"

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
	// query goes on.
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
		case "read", "part":
		default:
			return nil, script.Unexpected(inv, outcome)
		}
		if err := p.add(rest); err != nil {
			return nil, err
		}
		if outcome == "read" {
			return p, nil
		}
		args.Resumed = ""
		if args.First, _ = rest[4].(string); q.Descending {
			args.First = Previous(args.First)
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
	head, first    *redis.IntCmd
	begins, newest *redis.XMessageSliceCmd
	length         int64
}

// Ask queues what is to be read.
func (c *Counter) Ask(ctx context.Context, pipe redis.Pipeliner) {
	c.head = pipe.XLen(ctx, c.Log)
	c.begins, c.newest = pipe.XRangeN(ctx, Directory(c.Log), "-", "+", 1), pipe.XRevRangeN(ctx, Directory(c.Log), "+", "-", 1)
	if c.oldest != "" {
		c.first = pipe.XLen(ctx, Segment(c.Log, c.oldest))
	}
}

// Done takes the answers; it is false where it has to be asked again.
func (c *Counter) Done() bool {
	was := c.oldest
	c.oldest = ""
	for _, m := range c.begins.Val() {
		c.oldest = m.ID
	}
	if c.length = c.head.Val(); c.oldest == "" {
		return true
	}
	if c.oldest != was {
		return false
	}
	c.length += c.first.Val() + through(c.newest.Val()[0]) - through(c.begins.Val()[0])
	return true
}

// Len is how many entries the log has.
func (c *Counter) Len() int64 { return c.length }

// through is how many entries have ever gone into segments up to the end of one.
func through(m redis.XMessage) int64 {
	n, _ := strconv.ParseInt(rediskv.Text(m, "n"), 10, 64) // a check says where it is none
	return n
}

// Asked is a range of a log, upwards, that is read together with others.
type Asked struct {
	Log, First, Last string
	Count            int64
	Found            []redis.XMessage
}

// Behind looks for ranges in the segments of logs, all in two round trips: what was not
// in a head before may be there now. What is in more than two segments is not found
// whole.
func Behind(ctx context.Context, client peer.Client, asked []*Asked) error {
	if len(asked) == 0 {
		return nil
	}
	pipe := client.Pipeline()
	contains, more := make([]*redis.XMessageSliceCmd, len(asked)), make([]*redis.XMessageSliceCmd, len(asked))
	for i, a := range asked {
		first, last := lower(a.First), upper(a.Last)
		contains[i] = pipe.XRevRangeN(ctx, Directory(a.Log), first, "-", 1)
		more[i] = pipe.XRangeN(ctx, Directory(a.Log), Next(first), last, 1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	pipe = client.Pipeline()
	read := make([][]*redis.XMessageSliceCmd, len(asked))
	for i, a := range asked {
		for _, m := range append(contains[i].Val(), more[i].Val()...) {
			read[i] = append(read[i], pipe.XRangeN(ctx, Segment(a.Log, m.ID), lower(a.First), upper(a.Last), a.Count))
		}
	}
	if pipe.Len() == 0 {
		return nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	for i, a := range asked {
		for _, r := range read[i] {
			a.Found = append(a.Found, r.Val()[:min(len(r.Val()), int(a.Count)-len(a.Found))]...)
		}
	}
	return nil
}
