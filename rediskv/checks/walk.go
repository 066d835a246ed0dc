package checks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv"
	"tollgate/rediskv/checks/look"
	"tollgate/rediskv/consistency"
	"tollgate/rediskv/ledger"
)

// page is how many members of an index, or entries of a log, are looked at before a
// walk pauses; together is how many objects are read at one moment. A larger number
// would hold up everybody else in the slot.
const (
	page     = look.Page
	together = 8
)

// Finding is an inconsistency that was seen twice, and what repairs it.
type Finding struct {
	consistency.Finding
	Organization string
	Repair       string // what a repair does, for people; empty: what is right cannot be derived
	fix          func(*rediskv.Commit)
}

// repairable is the finding with what repairs it: text says it, and fix commits it if
// all is still as it was read.
func repairable(f consistency.Finding, fix func(*rediskv.Commit), format string, args ...any) Finding {
	return Finding{Finding: f, Repair: fmt.Sprintf(format, args...), fix: fix}
}

func plain(list []consistency.Finding) (of []Finding) {
	for _, f := range list {
		of = append(of, Finding{Finding: f})
	}
	return of
}

// Place is how far a walk through a partition has come: a part of an organization,
// and where in it.
type Place struct{ Organization, Part, At string }

func (p Place) String() string { return strings.Join([]string{p.Organization, p.Part, p.At}, " ") }

// ParsePlace reads what String wrote; anything else is the beginning.
func ParsePlace(text string) (p Place) {
	if part := strings.SplitN(text, " ", 3); len(part) == 3 {
		p = Place{part[0], part[1], part[2]}
	}
	return p
}

// Walk is what a walk does on its way. Its functions are called by one goroutine.
type Walk struct {
	Organization string // this one alone; empty: all of the partition
	// Pace is called behind each page, with where it ends and how many objects it
	// had. Its error ends the walk. nil: the walk does not pause.
	Pace func(ctx context.Context, at Place, objects int) error
	// Found is told of each finding.
	Found func(Finding)
	// Looked counts what was compared, by its kind.
	Looked map[string]int64

	damaged map[string]bool // objects that were reported as damaged
	doubted map[string]bool // organizations in which something is wrong that sums are made of
}

func (w *Walk) doubt(org string) {
	if w.doubted == nil {
		w.doubted = map[string]bool{}
	}
	w.doubted[org] = true
}

// known reports whether a damaged object was reported before, and notes that it is.
// Several parts of a walk read the same object.
func (w *Walk) known(object string) bool {
	if w.damaged == nil {
		w.damaged = map[string]bool{}
	}
	was := w.damaged[object]
	w.damaged[object] = true
	return was
}

// walk is a walk through one organization.
type walk struct {
	*Walk
	look.Reader
	store     *Store
	at        Place // where the part began, or has come
	log       *look.Log
	last      int64                      // the number of the last event when the walk began: what came later is the next one's
	elsewhere map[string]*ledger.Records // payments of the page that an archive has, by what their identifiers share
}

func (s *Store) walk(w *Walk, k rediskv.Space) *walk {
	r := look.Reader{DB: s.db, K: k}
	return &walk{Walk: w, Reader: r, store: s, log: look.NewLog(r, s.events)}
}

// parts are what a walk does in an organization, in this order. Each goes on from
// a place of its own.
var parts = []struct {
	name string
	do   func(*walk, context.Context) error
}{
	{"transactions", (*walk).transactions},
	{"accounts", (*walk).merchantAccounts},
	{"events", (*walk).eventLog},
	{"audit", (*walk).auditLog},
	{"webhooks", (*walk).webhooks},
	{"exports", (*walk).exports},
	{"counters", (*walk).counters},
}

// CheckPartition walks through a partition from a place on: its queues, and then its
// organizations, one after the other. What nobody can read is found and passed by;
// an error is that of Redis, of ctx or of Walk.Pace.
func (s *Store) CheckPartition(ctx context.Context, partition int, from Place, w *Walk) error {
	if w.Looked == nil {
		w.Looked = map[string]int64{}
	}
	if from.Organization == "" {
		if err := s.queues(ctx, partition, w); err != nil {
			return err
		}
	}
	var orgs []string
	if err := s.db.Timed(ctx, "check_organizations", func(ctx context.Context) (err error) {
		orgs, err = s.db.Redis.SMembers(ctx, rediskv.OrganizationsKey(partition)).Result()
		return err
	}); err != nil {
		return err
	}
	slices.Sort(orgs)
	for _, org := range orgs {
		if s.db.Partition(org) != partition {
			w.Found(Finding{Finding: consistency.Found(consistency.FindingIndex, "organization", org, "partition %d names it, and it belongs to another", partition), Organization: org})
			continue
		}
		if org < from.Organization || (w.Organization != "" && org != w.Organization) {
			continue
		}
		begin := from
		if begin.Organization != org {
			begin = Place{}
		}
		if err := s.organization(ctx, org, begin, w); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) organization(ctx context.Context, org string, from Place, w *Walk) error {
	one := s.walk(w, s.db.Space(org))
	w.Looked["organizations"]++
	if err := one.itself(ctx); err != nil {
		return err
	}
	if err := one.began(ctx); err != nil {
		return err
	}
	for _, part := range parts {
		if from.Part != "" && part.name != from.Part {
			continue
		}
		one.at = Place{org, part.name, from.At}
		from = Place{}
		if err := part.do(one, ctx); err != nil && !one.damage(err) {
			return fmt.Errorf("organization %s: %s: %w", org, part.name, err)
		}
	}
	return nil
}

// began notes how far the walk goes. An organization that grows faster than it is
// walked through would keep it forever.
func (w *walk) began(ctx context.Context) error {
	return w.Timed(ctx, "began", func(ctx context.Context) error {
		text, err := w.Redis().HGet(ctx, w.K.Sequences(), "event").Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if w.last, err = strconv.ParseInt(text, 10, 64); err != nil && text != "" {
			w.last, err = math.MaxInt64/consistency.LastPlace(1), nil // the end of the log says so
		}
		return err
	})
}

// itself looks whether the organization that a partition names is there.
func (w *walk) itself(ctx context.Context) error {
	return confirmed(ctx, w, []string{w.K.Org}, func(ctx context.Context, orgs []string) ([][]Finding, error) {
		k, there := w.K, int64(0)
		err := w.Timed(ctx, "organization", func(ctx context.Context) (err error) {
			there, err = w.Redis().Exists(ctx, k.Organization()).Result()
			return err
		})
		if err != nil || there == 1 {
			return make([][]Finding, 1), err
		}
		set := rediskv.OrganizationsKey(k.Partition)
		return [][]Finding{{repairable(consistency.Found(consistency.FindingIndex, "organization", k.Org, "its partition names it, and it is not there"), func(c *rediskv.Commit) {
			c.Still("0", "EXISTS", k.Organization())
			c.Do("SREM", set, k.Org)
		}, "remove %s from %s", k.Org, set)}}, nil
	})
}

// passed notes a page that was looked at, and pauses.
func (w *walk) passed(ctx context.Context, what string, objects int, at string) error {
	w.Looked[what] += int64(objects)
	w.at.At = at
	if w.Pace == nil {
		return ctx.Err()
	}
	return w.Pace(ctx, w.at, objects)
}

// damage reports the damage of an object; any other error is not.
func (w *walk) damage(err error) bool {
	list := consistency.FoundDamage(err)
	w.report(plain(list))
	return len(list) > 0
}

func (w *walk) report(list []Finding) {
	for _, f := range list {
		f.Organization = w.K.Org
		if f.Kind == consistency.FindingDamaged && w.known(f.Organization+"/"+f.Object+"/"+f.ID) && w.at.Part != "keys" { // there each key is one
			continue
		}
		switch f.Kind {
		case consistency.FindingDamaged, consistency.FindingPayment, consistency.FindingIndex:
			w.doubt(f.Organization)
		case consistency.FindingPayable, consistency.FindingCounter: // what they are made of comes first
			if w.doubted[f.Organization] {
				f.Repair, f.fix = "", nil
			}
		}
		w.Found(f)
	}
}

// confirmed checks items, those in which something was found a second time: others
// write meanwhile, and what is seen once can be the moment between two reads.
func confirmed[T any](ctx context.Context, w *walk, items []T, check func(context.Context, []T) ([][]Finding, error)) error {
	if len(items) == 0 {
		return nil
	}
	found, err := check(ctx, items)
	if err != nil {
		return err
	}
	var again []T
	var first [][]Finding
	for i, list := range found {
		if len(list) > 0 {
			again, first = append(again, items[i]), append(first, list)
		}
	}
	if len(again) == 0 {
		return nil
	}
	second, err := check(ctx, again)
	if err != nil {
		return err
	}
	for i, list := range second {
		w.report(slices.DeleteFunc(list, func(f Finding) bool {
			return !slices.ContainsFunc(first[i], func(was Finding) bool { return was.Finding == f.Finding })
		}))
	}
	return nil
}
