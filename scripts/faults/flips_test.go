package faults

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate/rediskv/redistest"
)

// TestFlips: one bit of what is stored is another one. Redis, a read through the API or
// `tollgate check` finds it, and no answer shows another amount.
func TestFlips(t *testing.T) {
	p := planned(t, "flips", 2000)
	server := redistest.Started(t, redistest.Real)
	w := newWorld(t, p, newSite(t, server.URL, 12), 1, 1)
	w.load(6)
	w.await("something of everything is there", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked > 400
	})
	for _, o := range w.orgs {
		w.besides(o)
	}
	w.rest()
	w.relax()
	for _, o := range w.orgs {
		if _, wrong := w.settle(o, time.Now().Add(time.Minute)); len(wrong) > 0 {
			t.Logf("before anything is changed: %s", wrong[0])
		}
	}
	// Nobody writes while bits are wrong: what is put back would undo it.
	w.works[0].now.End("TERM")
	f := &flips{world: w, redis: connect(t, server.Addr), shown: map[*org]map[string]string{}, by: map[string]int{}, missed: map[string]int{}}
	for _, o := range w.orgs {
		f.shown[o], _ = f.read(o)
	}
	f.learn()
	for org, finding := range f.check() {
		t.Fatalf("before anything is changed, check finds in %s: %s", org, finding)
	}
	t.Cleanup(func() {
		for _, one := range f.now {
			if t.Failed() {
				t.Logf("turned over at last: %s of %s (%s)", one.what, one.key, one.kind)
			}
		}
	})
	for done := 0; done < p.count; done += len(w.orgs) {
		f.round(min(len(w.orgs), p.count-done))
	}
	for org, finding := range f.check() {
		w.fail("after all is put back, check finds in %s: %s", org, finding)
	}
	// A number of the last event that was higher for a moment is one that Redis has lost.
	if code, stdout, stderr := program.Try(t, w.env, "history", "accept"); code > 1 {
		t.Fatalf("tollgate history accept: exit code %d\n%s%s", code, stdout, stderr)
	}
	w.works[0].start()
	w.judge()
	t.Logf("%d bits of %d kinds of values: %v", p.count, len(f.kinds[w.orgs[0]]), f.by)
	if len(f.missed) > 0 {
		t.Logf("without effect, and found by nobody: %v", f.missed)
	}
}

// besides makes of an organization what clients of payments do not: an export, and a test,
// a replay and a recovery of an endpoint.
func (w *world) besides(o *org) {
	w.t.Helper()
	list, _ := w.send(o, "GET", "/v1/webhooks", "", "")
	endpoint := "/v1/webhooks/" + first(list.text)
	var deliveries answer
	w.await("a delivery is there", func() bool {
		deliveries, _ = w.send(o, "GET", endpoint+"/deliveries", "", "")
		return first(deliveries.text) != ""
	})
	for path, body := range map[string]string{
		"/v1/exports/preview":    `{"dataset":"transactions"}`,
		endpoint + "/test":       "",
		endpoint + "/recoveries": `{"since":"` + w.begun.UTC().Format("2006-01-02T15:04:05Z") + `"}`,
		endpoint + "/deliveries/" + first(deliveries.text) + "/replays": "{}",
	} {
		if said, _ := w.send(o, "POST", path, body, "besides"+path[len(path)-4:]); said.status != 202 {
			w.t.Errorf("%s: %d %s", path, said.status, said.text)
		}
	}
}

// first is the id of the first object of a list.
func first(list string) string {
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal([]byte(list), &page) != nil || len(page.Data) == 0 {
		return ""
	}
	return page.Data[0].ID
}

// flips is what is turned over, and what there is to compare with.
type flips struct {
	*world
	redis  *redis.Client
	shown  map[*org]map[string]string   // objects by list and id, before
	kinds  map[*org]map[string][]string // keys by kind
	by     map[string]int               // who found how many
	missed map[string]int               // by kind of key
	now    []*flip                      // what is turned over while check runs, which may not end
}

// passing are kinds of keys that hold nothing but what may be forgotten, and expire: rates,
// assertions that were shown, marks of operations and of who asks for a payout, of which
// only whether they are there counts.
var passing = []string{"rate", "jti", "op", "po:paying"}

// learn lists the keys of each organization by their kind: what stands behind its id,
// without ids and numbers.
func (f *flips) learn() {
	f.t.Helper()
	f.kinds = map[*org]map[string][]string{}
	ctx := context.Background()
	for _, o := range f.orgs {
		f.kinds[o] = map[string][]string{}
		keys := f.redis.Scan(ctx, 0, "{*}:"+o.id+"*", 1000).Iterator()
		for keys.Next(ctx) {
			kind := kindOf(keys.Val(), o)
			f.kinds[o][kind] = append(f.kinds[o][kind], keys.Val())
		}
		must(f.t, keys.Err())
		for _, all := range f.kinds[o] {
			slices.Sort(all)
		}
	}
}

func kindOf(key string, o *org) string {
	_, rest, _ := strings.Cut(key, o.id)
	var words []string
	for word := range strings.SplitSeq(strings.TrimPrefix(rest, ":"), ":") {
		word, _, _ = strings.Cut(word, "_")
		if !strings.ContainsAny(word, "0123456789") {
			words = append(words, word)
		}
	}
	return strings.Join(words, ":")
}

// round turns one bit over for each of some organizations, which have nothing in common.
func (f *flips) round(count int) {
	f.t.Helper()
	ctx := context.Background()
	f.now = nil
	for _, o := range f.orgs[:count] {
		f.now = append(f.now, f.turn(o))
	}
	found := f.check()
	for _, one := range f.now {
		now, damaged := f.shown[one.org], false
		if one.kind != "seq" { // whatever is written down meanwhile would have a number that stays
			now, damaged = f.read(one.org)
		}
		misleading := f.misleading(one.org, now)
		switch {
		case one.back == nil:
			f.by["nothing to turn"]++
		case misleading != "":
			f.fail("%s of %s: another amount is shown: %s", one.what, one.key, misleading)
		case damaged:
			f.by["read"]++
		case found[one.org.id] != "":
			f.by["check"]++
		case f.missing(one.org, now) != "":
			f.fail("%s of %s: it is not shown, and nobody says why: %s", one.what, one.key, f.missing(one.org, now))
		case slices.ContainsFunc(passing, func(word string) bool { return strings.HasPrefix(one.kind, word) }):
			f.by["passes"]++
			f.missed[one.kind]++
		case strings.Contains(one.key, ":postings:"):
			f.by["one more to look at"]++ // check has found each transaction in its lists
			f.missed[one.kind]++
		case one.kind == "exp:c":
			f.by["the same file"]++ // it was read: of a compressed text some bits say nothing
			f.missed[one.kind]++
		case one.counting():
			f.by["another count"]++
			f.missed[one.kind+" "+one.field]++
		default:
			f.fail("nobody finds %s of %s (%s)", one.what, one.key, one.kind)
		}
		if one.back != nil {
			must(f.t, one.back(ctx))
		}
	}
	f.now = nil
}

// check is what tollgate check finds, by organization.
func (f *flips) check() map[string]string {
	f.t.Helper()
	code, stdout, stderr := program.Try(f.t, f.env, "check", "--json")
	found := map[string]string{}
	summary := false
	for line := range strings.Lines(stdout) {
		var row struct {
			Object       string `json:"object"`
			Organization string `json:"organization_id"`
		}
		_ = json.Unmarshal([]byte(line), &row)
		summary = summary || row.Object == "summary"
		if row.Object != "finding" {
			continue
		}
		for _, o := range f.orgs { // a queue's finding may have no other trace of it
			if row.Organization == o.id || strings.Contains(line, o.id) {
				found[o.id] += line
			}
		}
	}
	if code != 0 && code != 1 || !summary {
		f.fail("tollgate check: exit code %d\n%s\n%s", code, stdout, stderr)
	}
	return found
}

// read is every object that the API shows of an organization, by list and id; damaged is
// whether it says that something is.
func (f *flips) read(o *org) (shown map[string]string, damaged bool) {
	shown = map[string]string{}
	lists := []string{"/v1/payments", "/v1/transactions", "/v1/events", "/v1/payouts", "/v1/webhooks", "/v1/exports"}
	for _, list := range lists {
		cursor := ""
		for {
			said, err := f.once(o, "http://"+f.serves[0].addr, "GET", list+"?limit=100"+cursor, "", "")
			var page struct {
				Data []json.RawMessage `json:"data"`
				More bool              `json:"has_more"`
				Next string            `json:"next_cursor"`
			}
			if err != nil || said.status != 200 || json.Unmarshal([]byte(said.text), &page) != nil {
				damaged = true // an answer that says so
				break
			}
			for _, text := range page.Data {
				var object struct {
					ID      string `json:"id"`
					Damaged bool   `json:"damaged"`
					Result  struct {
						SHA256 string `json:"sha256"`
					} `json:"result"`
				}
				_ = json.Unmarshal(text, &object)
				if object.Damaged || list == "/v1/exports" && !f.whole(o, object.ID, object.Result.SHA256) {
					damaged = true
					continue
				}
				shown[fmt.Sprint(list, " ", object.ID)] = string(text)
			}
			if !page.More {
				break
			}
			cursor = "&cursor=" + page.Next
		}
	}
	return shown, damaged
}

// whole reports whether a file of an export is what the export says.
func (f *flips) whole(o *org, id, sum string) bool {
	said, err := f.once(o, "http://"+f.serves[0].addr, "GET", "/v1/exports/"+id+"/file", "", "")
	now := sha256.Sum256([]byte(said.text))
	return err == nil && said.status == 200 && hex.EncodeToString(now[:]) == sum
}

// misleading is an object that is shown with other amounts than before.
func (f *flips) misleading(o *org, now map[string]string) string {
	for id, text := range now {
		before, known := f.shown[o][id]
		if known && amounts(text) != amounts(before) {
			return before + " and now " + text
		}
	}
	return ""
}

// missing is an object that was shown before, and is not.
func (f *flips) missing(o *org, now map[string]string) string {
	for id := range f.shown[o] {
		if _, shown := now[id]; !shown {
			return id
		}
	}
	return ""
}

// amounts are the members of an object that have money.
func amounts(text string) string {
	var object map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &object)
	var all []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if strings.Contains(name, "amount") || strings.Contains(name, "fee") || name == "currency" || name == "data" || name == "preview" {
			all = append(all, name+string(object[name]))
		}
	}
	return strings.Join(all, " ")
}
