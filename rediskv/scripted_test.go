package rediskv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/record"
	"tollgate/rediskv/testkit"
	"tollgate/rediskv/webhooks"
)

// What scripts write of a delivery, a recovery, an export, a grant and an endpoint has no
// checksum. Another number is found by what it was made of, or by a copy.
func TestCheckFindsOtherNumbers(t *testing.T) {
	f := oneOfEach(t)
	f.Config.Clients[0].Status = "disabled" // raises its grants
	f.apply(t)
	failed := f.take(t, 1)
	f.Clock.Advance(time.Hour) // retries are due
	for _, work := range append(failed, f.take(t, 1)...) {
		f.record(t, work, webhooks.Outcome{State: tollgate.DeliveryFailed, StatusCode: 410})
	}
	testkit.Consistent(t, f.Store)
	c, events := f.raw(t)
	of := strings.TrimSuffix(events, "events")
	looked := map[string]bool{}
	for _, key := range scanKeys(t, c, of+"*_*") {
		k := record.KindOf(key)
		if k == nil || !slices.Contains([]string{"delivery", "recovery", "export", "grant", "webhook_endpoint"}, k.Name) {
			continue
		}
		fields, err := c.HGetAll(t.Context(), key).Result()
		must(t, err)
		for _, name := range k.Scripts {
			text := fields[name]
			what := fmt.Sprintf("%s, %s, %s", k.Name, fields["st"], name)
			if text == "" || strings.Trim(text, "0123456789") != "" || looked[what] {
				continue
			}
			if k.Name == "delivery" && name == "run" && fields["st"] != "succeeded" && fields["st"] != "failed" {
				continue // how often it is tried yet; the service's own faults are taken off it
			}
			looked[what] = true
			other := text[:len(text)-1] + string(text[len(text)-1]^1)
			must(t, c.HSet(t.Context(), key, name, other).Err())
			if found := testkit.Findings(t, f.Store); len(found) == 0 {
				t.Errorf("%s of %s is %s instead of %s, and nobody finds it", name, what, other, text)
			}
			must(t, c.HSet(t.Context(), key, name, text).Err())
		}
	}
	for _, list := range []string{"shadows", "rs_*:activations"} { // each is at a revision
		key := scanKeys(t, c, of+list)[0]
		member := c.ZRange(t.Context(), key, 0, 0).Val()[0]
		for _, by := range []float64{4, 0.5, -64} {
			at := c.ZScore(t.Context(), key, member).Val()
			must(t, c.ZIncrBy(t.Context(), key, by, member).Err())
			if found := testkit.Findings(t, f.Store); len(found) == 0 {
				t.Errorf("%s has one at %v instead of %v, and nobody finds it", list, at+by, at)
			}
			must(t, c.ZAdd(t.Context(), key, redis.Z{Score: at, Member: member}).Err())
		}
	}
	if len(looked) < 20 {
		t.Errorf("only %d kinds of numbers were there: %v", len(looked), looked)
	}
	testkit.Consistent(t, f.Store)
}
