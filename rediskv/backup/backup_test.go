package backup_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/backup"
	"tollgate/rediskv/checks"
	"tollgate/rediskv/history"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

func options(url string) backup.Options {
	return backup.Options{Redis: rediskv.Options{URL: url, Clock: time.Now, Entropy: rand.Reader}}
}

// partitions are few, so that a restore is short.
const partitions = 4

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func client(t testing.TB, s *redistest.Server) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(strings.TrimPrefix(s.URL, "redis://"), ",")})
	t.Cleanup(func() { c.Close() })
	return c
}

// taken is a copy of a server, opened again.
func taken(t testing.TB, s *redistest.Server) (*backup.Copy, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	_, err := backup.Take(t.Context(), options(s.URL), dir)
	must(t, err)
	c, err := backup.Open(dir)
	must(t, err)
	return c, dir
}

// shop is an organization with a payment, on a server.
func shop(t testing.TB, s *redistest.Server) *testkit.Shop {
	t.Helper()
	clock := testkit.NewClock()
	clock.Set(time.Now()) // keys expire by Redis' own
	f := testkit.NewShop(t, rediskv.Options{URL: s.URL, Partitions: partitions, Rules: []tollgate.RuleRef{testkit.CardFee}}, clock, nil)
	f.Pay(t, testkit.EUR(1000), tollgate.CaptureAutomatic)
	return f
}

// shapes writes values of every type, in each way in which Redis writes it.
func shapes(t testing.TB, c redis.UniversalClient) {
	t.Helper()
	ctx := t.Context()
	key := func(name string) string { return "{p03}:" + name }
	for name, text := range map[string]string{
		"empty": "", "one": "1", "negative": "-129", "large": "-40000", "int32": "-2147483648", "int64": "9223372036854775807", "zero": "007",
		"binary": "\x00\xff\r\n", "packed": strings.Repeat("tollgate ", 10_000), "random": rand.Text() + rand.Text() + rand.Text(),
	} {
		must(t, c.Set(ctx, key("string:"+name), text, 0).Err())
	}
	must(t, c.Set(ctx, key("expires"), "x", time.Hour).Err())
	many := func(n int, item func(int) any) (list []any) {
		for i := range n {
			list = append(list, item(i))
		}
		return list
	}
	number := func(step int) func(int) any { return func(i int) any { return (i - 50) * step } }
	word := func(i int) any { return fmt.Sprintf("word %d", i) }
	for name, list := range map[string][]any{
		"numbers": many(100, number(7)), "large numbers": many(100, number(700_001)), "largest": {int64(math.MinInt64), 1 << 40, -(1 << 23)},
		"words": many(20, word), "many": many(3000, word), "long": {strings.Repeat("x", 20_000), "", strings.Repeat("y", 5000), strings.Repeat("z", 100)},
	} {
		must(t, c.SAdd(ctx, key("set:"+name), list...).Err())
		must(t, c.RPush(ctx, key("list:"+name), list...).Err())
		fields, scored := make([]any, 0, 2*len(list)), make([]redis.Z, 0, len(list))
		for i, item := range list {
			fields = append(fields, fmt.Sprint(item), item)
			scored = append(scored, redis.Z{Score: float64(i) / 3, Member: item})
		}
		must(t, c.HSet(ctx, key("hash:"+name), fields...).Err())
		must(t, c.ZAdd(ctx, key("zset:"+name), append(scored, redis.Z{Score: math.Inf(-1), Member: "least"}, redis.Z{Score: 1764000000000, Member: "time"})...).Err())
	}
	streams(t, c, key)
}

func streams(t testing.TB, c redis.UniversalClient, key func(string) string) {
	t.Helper()
	ctx := t.Context()
	add := func(key string, n int) (ids []string) {
		for i := range n {
			values := []any{"o", "org_1", "i", i, "b", strings.Repeat("b", i)}
			if i%7 == 0 {
				values = []any{"z", "1", "a", "2", "z", "twice"} // their order is kept
			}
			id, err := c.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: values}).Result()
			must(t, err)
			ids = append(ids, id)
		}
		return ids
	}
	ids := add(key("stream:groups"), 300)
	must(t, c.XDel(ctx, key("stream:groups"), ids[4], ids[5], ids[299]).Err())
	must(t, c.XGroupCreate(ctx, key("stream:groups"), "workers", "0").Err())
	must(t, c.XGroupCreate(ctx, key("stream:groups"), "others", ids[100]).Err())
	for range 3 {
		must(t, c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "a", Streams: []string{key("stream:groups"), ">"}, Count: 10}).Err())
	}
	must(t, c.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: "b", Streams: []string{key("stream:groups"), ">"}, Count: 10}).Err())
	must(t, c.XClaim(ctx, &redis.XClaimArgs{Stream: key("stream:groups"), Group: "workers", Consumer: "b", Messages: ids[:2]}).Err())
	must(t, c.XAck(ctx, key("stream:groups"), "workers", ids[7], ids[8]).Err())
	must(t, c.XGroupCreateConsumer(ctx, key("stream:groups"), "others", "idle").Err())
	add(key("stream:trimmed"), 300)
	must(t, c.XTrimMaxLen(ctx, key("stream:trimmed"), 10).Err())
	ids = add(key("stream:emptied"), 3)
	must(t, c.XDel(ctx, key("stream:emptied"), ids...).Err())
	must(t, c.XGroupCreateMkStream(ctx, key("stream:new"), "workers", "$").Err())
}

// What is put back is what there was, on one server or a cluster, whichever it came
// from. Only the histories are new.
func TestRestored(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(testing.TB) *redistest.Server{
		"server":  func(t testing.TB) *redistest.Server { return redistest.Started(t, redistest.Real) },
		"cluster": func(t testing.TB) *redistest.Server { return redistest.Started(t, redistest.Cluster) },
	}
	for _, way := range [][2]string{{"server", "server"}, {"server", "cluster"}, {"cluster", "server"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			from, to := kinds[way[0]](t), kinds[way[1]](t)
			f := shop(t, from)
			c := client(t, from)
			shapes(t, c)
			must(t, c.Set(t.Context(), "somebody:else", "x", 0).Err())
			was, err := f.HistoryFor(t.Context(), f.Caller.Organization)
			must(t, err)
			before := testkit.State(t, c)
			delete(before, "somebody:else")
			kept, _ := taken(t, from)
			must(t, backup.Restore(t.Context(), options(to.URL), kept))
			after := testkit.State(t, client(t, to))
			testkit.Restored(t, before, after)
			meta := after[rediskv.MetaKey].([]any)[1].(map[string]string)
			if meta["partitions"] != "4" || meta["restored"] != kept.ID || meta["layout"] != "4" || len(meta) != 3 {
				t.Errorf("%v", meta)
			}
			begun(t, f, to.URL, was, kept)
			if err := backup.Restore(t.Context(), options(to.URL), kept); !errors.Is(err, backup.ErrRestored) {
				t.Errorf("again: %v", err)
			}
			testkit.Restored(t, before, after)
		})
	}
}

// begun looks whether the organization goes on in a new history.
func begun(t *testing.T, f *testkit.Shop, url string, was history.Record, kept *backup.Copy) {
	t.Helper()
	last := f.Redis.XRevRangeN(t.Context(), f.Space(f.Caller.Organization).Events(), "+", "-", 1).Val()[0].ID
	g := f.With(t, rediskv.Options{URL: url, Rules: []tollgate.RuleRef{testkit.CardFee}})
	org := g.Caller.Organization
	is, err := g.RereadHistory(t.Context(), org)
	must(t, err)
	if !is.Open || is.ID == was.ID || is.First != was.First || is.Loss == nil || is.Loss.Reason != "restore" {
		t.Fatalf("%+v, %+v", is, is.Loss)
	}
	if milli := fmt.Sprintf("%d-", is.MissingFrom(was.ID)); !strings.HasPrefix(last, milli) || is.Loss.Since != is.MissingFrom(was.ID) {
		t.Errorf("missing from %s, and the last event is %s", milli, last)
	}
	g.Pay(t, testkit.EUR(500), tollgate.CaptureAutomatic)
	for p := range g.Partitions() {
		r, err := g.Histories.Reread(t.Context(), p)
		must(t, err)
		if p != g.Space(org).Partition && (len(r.Past) != 1 || r.Loss != nil || r.MissingFrom(r.Past[0].ID) != kept.TakenAt) {
			t.Errorf("partition %d, which has nothing: %+v", p, r)
		}
	}
	testkit.Consistent(t, g.Store)
}

// A copy says what it has, and is checked without the Redis it came from.
func TestChecked(t *testing.T) {
	from := redistest.Started(t, redistest.Real)
	f := shop(t, from)
	org := f.Caller.Organization
	check := func() (found []string, looked map[string]int64) {
		kept, _ := taken(t, from)
		w := &checks.Walk{Found: func(f checks.Finding) { found = append(found, string(f.Kind)+" "+f.ID) }}
		must(t, kept.Check(t.Context(), options(""), f.Clock.Now, w))
		if len(kept.Contents) != 1 || len(kept.Contents[0].Organizations) != 1 || kept.Contents[0].Organizations[0].ID != org || kept.Contents[0].Organizations[0].Sequence == 0 {
			t.Errorf("%+v", kept.Contents)
		}
		return found, w.Looked
	}
	if found, looked := check(); len(found) > 0 || looked["organizations"] != 1 || looked["transactions"] == 0 {
		t.Errorf("%v, %v", found, looked)
	}
	must(t, f.Redis.ZAdd(t.Context(), f.Space(org).Due, redis.Z{Score: 5, Member: org + "/pay_01jd8m2r5k0000000000000000"}).Err())
	if found, _ := check(); !slices.Contains(found, "queue pay_01jd8m2r5k0000000000000000") {
		t.Errorf("%v", found)
	}
}

// A byte that is another one anywhere in a copy is found before anything is written.
func TestDamagedCopy(t *testing.T) {
	from := redistest.Started(t, redistest.Real)
	shop(t, from)
	_, dir := taken(t, from)
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) != 3 {
		t.Fatal(files)
	}
	for _, file := range files {
		name := filepath.Join(dir, file.Name())
		text, err := os.ReadFile(name)
		must(t, err)
		for _, at := range []int{0, len(text) / 2, len(text) - 1} {
			turned := slices.Clone(text)
			turned[at] ^= 1
			must(t, os.WriteFile(name, turned, 0o600))
			if _, err := backup.Open(dir); err == nil {
				t.Errorf("%s: byte %d of %d is another one, and nobody says so", file.Name(), at, len(text))
			}
		}
		must(t, os.WriteFile(name, text[:len(text)-1], 0o600))
		if _, err := backup.Open(dir); err == nil {
			t.Errorf("%s is cut off, and nobody says so", file.Name())
		}
		must(t, os.Remove(name))
		if _, err := backup.Open(dir); err == nil {
			t.Errorf("%s is gone, and nobody says so", file.Name())
		}
		must(t, os.WriteFile(name, text, 0o600))
	}
	if _, err := backup.Open(dir); err != nil {
		t.Error(err)
	}
}

// Into a Redis that has anything, nothing is restored.
func TestRestoreRefused(t *testing.T) {
	from, to := redistest.Started(t, redistest.Real), redistest.Started(t, redistest.Real)
	shop(t, from)
	kept, dir := taken(t, from)
	if _, err := backup.Take(t.Context(), options(from.URL), dir); err == nil || !strings.Contains(err.Error(), "there already") {
		t.Errorf("a copy over another: %v", err)
	}
	if _, err := backup.Take(t.Context(), options(to.URL), dir+"2"); !errors.Is(err, backup.ErrNothing) {
		t.Errorf("a copy of nothing: %v", err)
	}
	if err := backup.Restore(t.Context(), options(from.URL), kept); err == nil || rediskv.Away(err) || !strings.Contains(err.Error(), "has data of Tollgate") {
		t.Errorf("over what it was made of: %v", err)
	}
	c := client(t, to)
	must(t, c.Set(t.Context(), "somebody:else", "x", 0).Err())
	if err := backup.Restore(t.Context(), options(to.URL), kept); err == nil || rediskv.Away(err) || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("beside something else: %v", err)
	}
	if n, err := c.DBSize(t.Context()).Result(); n != 1 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*"))
	if must(t, err); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A Redis that gives no copies of itself, as the embedded one, is told apart.
func TestNoSync(t *testing.T) {
	s := redistest.Fresh(t)
	if s.Mini == nil {
		t.Skip("this one gives copies")
	}
	shop(t, s)
	dir := filepath.Join(t.TempDir(), "copy")
	_, err := backup.Take(t.Context(), options(s.URL), dir)
	if _, ok := errors.AsType[*backup.ErrNoSync](err); !ok {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A master may know how long its copy is before it sends it, or not; it may want a
// password, and a user who may not copy it is told so.
func TestWays(t *testing.T) {
	from := redistest.Started(t, redistest.Real)
	f := shop(t, from)
	ctx, admin := t.Context(), f.Redis
	take := func(user string) (keys int64, err error) {
		o := options(strings.Replace(from.URL, "redis://", "redis://"+user, 1))
		c, err := backup.Take(ctx, o, filepath.Join(t.TempDir(), "copy"))
		if err == nil {
			keys = c.Files[0].Keys
		}
		return keys, err
	}
	first, err := take("")
	must(t, err)
	must(t, admin.ConfigSet(ctx, "repl-diskless-sync", "no").Err())
	if keys, err := take(""); keys != first || err != nil {
		t.Errorf("with its length: %d keys, %v; without %d", keys, err, first)
	}
	must(t, admin.Do(ctx, "ACL", "SETUSER", "copier", "on", ">secret", "~*", "+@all").Err())
	must(t, admin.Do(ctx, "ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@all", "-sync").Err())
	must(t, admin.Do(ctx, "ACL", "SETUSER", "default", "resetpass", ">other").Err())
	if keys, err := take("copier:secret@"); keys != first || err != nil {
		t.Errorf("with a user: %d keys, %v", keys, err)
	}
	if keys, err := take(":other@"); keys != first || err != nil {
		t.Errorf("with a password: %d keys, %v", keys, err)
	}
	_, err = take("reader:secret@")
	if no, ok := errors.AsType[*backup.ErrNoSync](err); !ok || !strings.Contains(no.Reply, "NOPERM") {
		t.Errorf("with a user who may not: %v", err)
	}
}
