package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/clitest"
)

// disk is what a Keeper writes to. Every seventh write fails.
type disk struct {
	mu       sync.Mutex
	pieces   [][]byte
	writes   int
	rewrites int
}

func (d *disk) write(_ context.Context, changes []byte, whole bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writes++; d.writes%7 == 0 {
		return errors.New("the disk is full")
	}
	if whole {
		d.pieces = nil
		d.rewrites++
	}
	d.pieces = append(d.pieces, changes)
	return nil
}

// Whenever a sandbox dies, what it has acknowledged is there at its next start, also
// what could not be kept at first: that was answered with 503, and sent again.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	kept := new(disk)
	redis := sandbox.NewRedis(time.Now)
	keeper := &sandbox.Keeper{Redis: redis, Write: kept.write, RewriteFrom: 100 << 10}
	hooks := new(receiver)
	hooks.status.Store(http.StatusOK)
	x := runKept(t, redis, time.Now, hooks, keeper.Handler)

	type death struct {
		pieces       [][]byte
		acknowledged []string
	}
	var (
		mu           sync.Mutex
		acknowledged []string
		deaths       []death
		refused      atomic.Int64
		clients      sync.WaitGroup
	)
	const callers, each = 4, 12
	for c := range callers {
		clients.Go(func() {
			for i := range each {
				key := fmt.Sprintf("key-%d-%d", c, i)
				for {
					answer, err := clitest.Send(t.Context(), x.token, "POST", x.url+"/v1/payments", `{"amount":"5.00","currency":"EUR","payee":"shop.example"}`, "Idempotency-Key", key)
					if err != nil {
						t.Error(err)
						return
					}
					if answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") == "1" && strings.Contains(answer.Text, "the disk is full") {
						refused.Add(1)
						continue
					}
					_, id, _ := strings.Cut(answer.Text, `"id":"`)
					id, _, _ = strings.Cut(id, `"`)
					if answer.StatusCode != http.StatusCreated || !strings.HasPrefix(id, "pay_") {
						t.Errorf("%d %s", answer.StatusCode, answer.Text)
						return
					}
					mu.Lock()
					acknowledged = append(acknowledged, id)
					if len(acknowledged)%9 == 0 {
						kept.mu.Lock()
						deaths = append(deaths, death{slices.Clone(kept.pieces), slices.Clone(acknowledged)})
						kept.mu.Unlock()
					}
					mu.Unlock()
					break
				}
			}
		})
	}
	clients.Wait()
	x.stop()
	if refused.Load() == 0 || kept.rewrites < 2 || len(deaths) != callers*each/9 {
		t.Errorf("%d refused, %d times kept anew, %d deaths: this proves little", refused.Load(), kept.rewrites, len(deaths))
	}
	for _, d := range deaths {
		again := &sandbox.Keeper{Redis: sandbox.NewRedis(time.Now), Write: new(disk).write}
		if err := again.Load(d.pieces...); err != nil {
			t.Fatal(err)
		}
		x := run(t, again.Redis, time.Now, hooks)
		for _, id := range d.acknowledged {
			x.send(http.StatusOK, "GET", "/v1/payments/"+id, "")
		}
		x.stop()
	}
}

// What passes while nothing runs passes for what expires, too.
func TestTimePassesBetweenStarts(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	kept := new(disk)
	first := &sandbox.Keeper{Redis: sandbox.NewRedis(clock), Write: kept.write}
	ask(t, first.Redis, "SET brief 1 PX 60000")
	ask(t, first.Redis, "SET lasting 1 PX 3600000")
	if err := first.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	now = now.Add(10 * time.Minute)
	second := &sandbox.Keeper{Redis: sandbox.NewRedis(clock), Write: kept.write}
	if err := second.Load(kept.pieces...); err != nil {
		t.Fatal(err)
	}
	if reply := ask(t, second.Redis, "EXISTS brief"); reply != ":0" {
		t.Errorf("what has expired is there: %s", reply)
	}
	if reply := ask(t, second.Redis, "PTTL lasting"); reply != ":3000000" {
		t.Errorf("%s ms are left", reply)
	}
}
