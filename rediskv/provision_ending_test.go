package rediskv_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// revisions reads the version that tokens of each grant name.
func (f *fixture) revisions(t testing.TB) map[string]int64 {
	t.Helper()
	c := rawClient(t, f.URL)
	found := map[string]int64{}
	for _, key := range scanKeys(t, c, "*"+f.Caller.Organization+":grt_*") {
		v, err := c.HGet(t.Context(), key, "v").Int64()
		if err != nil {
			t.Fatal(err)
		}
		found[key[len(key)-30:]] = v
	}
	return found
}

// staff gives the fixture a second client and grants: n of the first client's,
// one of the second's.
func (f *fixture) staff(t testing.TB, n int) (first, second []string) {
	t.Helper()
	other := tollgate.Client{ID: f.NewID(tollgate.PrefixClient), Name: "till", Status: "active", Keys: []string{"{}"}}
	f.Config.Clients[0].Keys = []string{`{"kid":"a"}`, `{"kid":"b"}`}
	f.Config.Clients = append(f.Config.Clients, other)
	first = []string{f.Config.Grants[0].ID}
	for i := range n {
		g := f.Config.Grants[0]
		g.ID = f.NewID(tollgate.PrefixGrant)
		if i == 0 {
			g.ClientID = other.ID
			second = append(second, g.ID)
		} else {
			first = append(first, g.ID)
		}
		f.Config.Grants = append(f.Config.Grants, g)
	}
	f.apply(t)
	return first, second
}

func (f *fixture) apply(t testing.TB) []tollgate.ConfigChange {
	t.Helper()
	changes, err := f.ApplyConfig(t.Context(), f.Config, false)
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// What ends whose tokens: every change of a status, either way, and a key that
// is gone; not a new key, and nobody else's.
func TestTokensEnd(t *testing.T) {
	f := newFixture(t)
	first, second := f.staff(t, 3)
	all := slices.Concat(first, second)
	for _, step := range []struct {
		name   string
		change func()
		ends   []string
	}{
		{"the client's name", func() { f.Config.Clients[0].Name = "kiosk" }, nil},
		{"a new key", func() { f.Config.Clients[0].Keys = []string{`{"kid":"a"}`, `{"kid":"b"}`, `{"kid":"c"}`} }, nil},
		{"keys in another order", func() { f.Config.Clients[0].Keys = []string{`{"kid":"c"}`, `{"kid":"b"}`, `{"kid":"a"}`} }, nil},
		{"a removed key", func() { f.Config.Clients[0].Keys = []string{`{"kid":"c"}`, `{"kid":"b"}`} }, first},
		{"a replaced key", func() { f.Config.Clients[0].Keys = []string{`{"kid":"c"}`, `{"kid":"d"}`} }, first},
		{"a disabled client", func() { f.Config.Clients[0].Status = "disabled" }, first},
		{"an enabled client", func() { f.Config.Clients[0].Status = "active" }, first},
		{"the organization's name", func() { f.Config.Organization.Name = "New" }, nil},
		{"a suspended organization", func() { f.Config.Organization.Status = "suspended" }, all},
		{"a closed one", func() { f.Config.Organization.Status = "closed" }, all},
		{"an open one", func() { f.Config.Organization.Status = "active" }, all},
		{"both", func() { f.Config.Organization.Status, f.Config.Clients[1].Status = "closed", "disabled" }, all},
		{"a grant of its own", func() { f.Config.Grants[0].Scopes = []string{"payments:read"} }, first[:1]},
	} {
		before := f.revisions(t)
		step.change()
		dry, err := f.ApplyConfig(t.Context(), f.Config, true)
		if err != nil {
			t.Fatal(err)
		}
		if now := f.revisions(t); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Errorf("%s: a dry run ends tokens", step.name)
		}
		changes := f.apply(t)
		after := f.revisions(t)
		ends := 0
		for i, c := range changes {
			ends = max(ends, c.Ends)
			if c.Ends != dry[i].Ends {
				t.Errorf("%s: a dry run says %d, not %d", step.name, dry[i].Ends, c.Ends)
			}
		}
		if ends != len(step.ends) {
			t.Errorf("%s: says that it ends those of %d grants, want %d", step.name, ends, len(step.ends))
		}
		for _, id := range all {
			if want := before[id] + int64(count(step.ends, id)); after[id] != want {
				t.Errorf("%s: %s is at %d, want %d", step.name, id, after[id], want)
			}
		}
	}
}

func count(list []string, of string) (n int) {
	for _, v := range list {
		if v == of {
			n++
		}
	}
	return n
}

// A grant that the file no longer names is the client's still: its tokens end
// with the others. So do those of a release that kept no list of grants, and
// nothing that is not a grant is touched.
func TestTokensEndOfGrantsThatTheFileLeavesOut(t *testing.T) {
	for _, listed := range []bool{true, false} {
		t.Run(fmt.Sprint("listed ", listed), func(t *testing.T) {
			f := newFixture(t)
			first, second := f.staff(t, 2)
			c := rawClient(t, f.URL)
			forget := func() {
				if !listed {
					for _, key := range scanKeys(t, c, "*"+f.Caller.Organization+":grants") {
						if err := c.Del(t.Context(), key).Err(); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			f.Config.Grants, f.Config.Clients[0].GrantIDs = nil, nil
			before := f.revisions(t)
			forget()
			f.Config.Clients[0].Status = "disabled"
			f.apply(t)
			forget()
			f.Config.Organization.Status = "suspended"
			f.apply(t)
			after := f.revisions(t)
			if len(after) != len(first)+len(second) {
				t.Errorf("%d grants, want %d", len(after), len(first)+len(second))
			}
			for _, id := range first {
				if after[id] != before[id]+2 {
					t.Errorf("of the disabled client: %d, want %d", after[id], before[id]+2)
				}
			}
			if after[second[0]] != before[second[0]]+1 {
				t.Errorf("of the other: %d, want %d", after[second[0]], before[second[0]]+1)
			}
			key := scanKeys(t, c, "*"+f.Caller.Organization+":grants")
			if len(key) != 1 {
				t.Fatalf("lists: %q", key)
			}
			if list := c.HGetAll(t.Context(), key[0]).Val(); list[first[0]] != f.Config.Clients[0].ID || len(list) != len(after)+1 {
				t.Errorf("list: %v", list)
			}
		})
	}
}

// An organization of a release that kept no list of grants may have more of them
// than one scan finds: all are found, on whichever master has them, and none of
// another organization.
func TestTokensEndOfMoreGrantsThanOneScanFinds(t *testing.T) {
	f := newFixture(t)
	first, second := f.staff(t, 1)
	other := newFixtureBy(t, f.URL, f.Clock)
	c := rawClient(t, f.URL)
	own := scanKeys(t, c, "*"+f.Caller.Organization+":"+first[0])[0]
	prefix, sample := strings.TrimSuffix(own, first[0]), c.HGetAll(t.Context(), own).Val()
	const more = 12_000 // a scan looks at about 5,000 keys
	for part := range slices.Chunk(make([]struct{}, more), 1000) {
		pipe := c.Pipeline()
		for range part {
			id := f.NewID(tollgate.PrefixGrant)
			pipe.HSet(t.Context(), prefix+id, "v", sample["v"], "json", strings.ReplaceAll(sample["json"], first[0], id))
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Del(t.Context(), scanKeys(t, c, "*"+f.Caller.Organization+":grants")[0]).Err(); err != nil {
		t.Fatal(err)
	}
	before, others := f.revisions(t), other.revisions(t)
	f.Config.Clients[0].Status = "disabled"
	f.apply(t)
	after := f.revisions(t)
	if len(before) != more+2 || len(after) != len(before) {
		t.Fatalf("%d grants, then %d", len(before), len(after))
	}
	for id, was := range before {
		want := was + 1
		if id == second[0] {
			want = was
		}
		if after[id] != want {
			t.Fatalf("%s is at %d, want %d", id, after[id], want)
		}
	}
	if !maps.Equal(other.revisions(t), others) {
		t.Error("another organization's have changed")
	}
	if n := c.HLen(t.Context(), scanKeys(t, c, "*"+f.Caller.Organization+":grants")[0]).Val(); n != more+2+1 {
		t.Errorf("the list has %d entries", n)
	}
}

// More grants than one script raises: the command answers when all are raised,
// and one that dies on the way leaves the rest to the next.
func TestTokensOfManyGrantsEnd(t *testing.T) {
	f := newFixtureAt(t, redistest.Single(t).URL)
	f.staff(t, 1)
	const many = 2100
	c := rawClient(t, f.URL)
	for range many / 300 { // as files of an operator that come one after the other
		g := f.Config.Grants[:2]
		for range 300 {
			one := f.Config.Grants[0]
			one.ID = f.NewID(tollgate.PrefixGrant)
			g = append(g, one)
		}
		f.Config.Grants = g
		f.apply(t)
	}
	f.Config.Grants = f.Config.Grants[:2]
	raised := func(before map[string]int64) (n int) {
		for id, v := range f.revisions(t) {
			if v > before[id] {
				n++
			}
		}
		return n
	}

	before := f.revisions(t)
	f.Config.Clients[0].Status = "disabled"
	if changes := f.apply(t); len(changes) != 1 || changes[0].Ends != many+1 || raised(before) != many+1 {
		t.Errorf("%d of %d raised, %+v", raised(before), many+1, changes)
	}

	before = f.revisions(t)
	wire := redistest.Proxy(t, f.URL)
	commits := 0
	dying := f.observed(t, wire.URL, func(operation string) {
		if operation != "commit" {
			return
		}
		if commits++; commits == 2 {
			wire.Refuse() // behind the first of several that end tokens
		}
	})
	f.Config.Organization.Status = "suspended"
	if _, err := redistest.Provision(t.Context(), dying, f.Config, false); err == nil || raised(before) == 0 || raised(before) == many+2 {
		t.Errorf("died with %v when %d were raised", err, raised(before))
	}
	if keys := scanKeys(t, c, "*:ending"); len(keys) != 1 {
		t.Errorf("notes: %q", keys)
	}
	if changes, err := f.ApplyConfig(t.Context(), f.Config, true); err != nil || len(changes) != 0 || raised(before) == many+2 {
		t.Errorf("a dry run of the same: %+v %v", changes, err)
	}
	if changes := f.apply(t); len(changes) != 0 || raised(before) != many+2 {
		t.Errorf("the same again: %+v, %d of %d raised", changes, raised(before), many+2)
	}
	if keys := scanKeys(t, c, "*:ending"); len(keys) != 0 {
		t.Errorf("left: %q", keys)
	}
}

// Grants that are made while an organization is suspended are either suspended
// with it or were made after it.
func TestGrantsWhileTokensEnd(t *testing.T) {
	f := newFixture(t)
	f.staff(t, 1)
	other := f.with(t, rediskv.Options{})
	made := make(chan string, 1)
	once := sync.OnceFunc(func() {
		c := other.Config
		g := c.Grants[0]
		g.ID = f.NewID(tollgate.PrefixGrant)
		c.Grants = append(slices.Clone(c.Grants), g)
		if _, err := other.ApplyConfig(t.Context(), c, false); err != nil {
			t.Error(err)
		}
		made <- g.ID
	})
	slow := f.observed(t, f.URL, func(operation string) {
		if operation == "read_grants" {
			once()
		}
	})
	f.Config.Organization.Status = "suspended"
	if _, err := redistest.Provision(t.Context(), slow, f.Config, false); err != nil {
		t.Fatal(err)
	}
	if v := f.revisions(t)[<-made]; v != 2 {
		t.Errorf("the new grant is at %d", v)
	}
}

// The same file again ends nothing more; nor is a token issued to the client as
// it was.
func TestTokensEndOnce(t *testing.T) {
	f := newFixture(t)
	f.staff(t, 2)
	before := f.revisions(t)
	issue := f.issue("early")
	f.Config.Clients[0].Status = "disabled"
	f.apply(t)
	if err := f.burn(t.Context(), issue); !errors.Is(err, rediskv.ErrStale) {
		t.Errorf("a token of the client that was found active: %v", err)
	}
	for range 3 {
		f.apply(t)
	}
	for _, id := range f.Config.Clients[0].GrantIDs {
		if v := f.revisions(t)[id]; v != before[id]+1 {
			t.Errorf("%s went from %d to %d", id, before[id], v)
		}
	}
}
