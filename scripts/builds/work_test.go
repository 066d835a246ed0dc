package builds_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tollgate/rediskv/testkit"
)

// yard is two sandboxes on one Redis: API and worker of each build, with clocks that
// move and deliveries to this machine.
type yard struct {
	pair
	pays *payStep
	to   *receiver
}

// TestWork: what the workers do, with both at work. Payouts are in TestPayouts: the
// previous build, which was never released, knows each one's id from its date alone,
// and takes one of this build for damaged.
func TestWork(t *testing.T) {
	s := newSite(t, needBuilds(t))
	pays, to := newPayStep(t), newReceiver(t)
	before := s.sandbox(builds.previous, pays.env()...)
	this := s.sandbox(builds.this, pays.env()...)
	s.provision(builds.previous)
	before.authenticate()
	this.authenticate()
	for _, c := range []struct {
		name string
		run  func(*testing.T, yard)
	}{
		{"deliveries", checkDeliveries},
		{"an authorization expires", checkExpiry},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Run("made by the previous one", func(t *testing.T) { c.run(t, yard{pair{s, before, this}, pays, to}) })
			t.Run("made by this one", func(t *testing.T) { c.run(t, yard{pair{s, this, before}, pays, to}) })
		})
	}
	for _, in := range []*instance{before, this} {
		if found := in.Complaints(); len(found) > 0 {
			t.Errorf("%s complains:\n%s", in.Process.Name, strings.Join(found, "\n"))
		}
	}
	if ids := all(t, "/v1/events?types=integrity.failed", this); len(ids) > 0 {
		t.Errorf("integrity.failed: %v", ids)
	}
}

// advance moves the clocks of all instances to one moment.
func (s *site) advance(t *testing.T, by time.Duration, instances ...*instance) {
	t.Helper()
	now, err := time.Parse(time.RFC3339, instances[0].get(t, "/v1/sandbox/clock").at("now"))
	must(t, err)
	for _, in := range instances {
		in.do(t, "POST", "/v1/sandbox/clock", "", fmt.Sprintf(`{"to":%q}`, now.Add(by).UTC().Format("2006-01-02T15:04:05.000Z")))
	}
}

func checkDeliveries(t *testing.T, y yard) {
	hook := y.a.post(t, "/v1/webhooks", `{"url":"`+y.to.URL+`","event_types":["payment.*"],"signature_scheme":"both"}`).at("id")
	path := "/v1/webhooks/" + hook
	// Changed by the other; what both deliver goes there.
	y.b.do(t, "PATCH", path, "", `{"description":"changed","event_types":["payment.*","payout.*","export.*"]}`)
	testkit.Eventually(t, "both workers deliver", func() bool {
		y.a.pay(t, "1.00", "")
		y.b.pay(t, "1.00", "")
		return y.to.by(y.a.build) && y.to.by(y.b.build)
	})
	id := y.a.pay(t, "2.00", "").at("id")
	testkit.Eventually(t, "it is delivered", func() bool { return y.to.has(id) })
	var delivery string
	testkit.Eventually(t, "both list it as delivered", func() bool {
		x, z := y.a.get(t, path+"/deliveries?limit=1"), y.b.get(t, path+"/deliveries?limit=1")
		delivery = path + "/deliveries/" + x.at("data.0.id")
		return x.at("data.0.state") == "succeeded" && x.comparable() == z.comparable()
	})
	same(t, delivery+"/attempts", y.a, y.b)
	// A replay that one is asked for; the endpoint then refuses, and the delivery
	// waits for a retry, whoever made the attempt.
	y.to.refuses(true)
	y.b.post(t, delivery+"/replays", `{"reason":"lost"}`)
	testkit.Eventually(t, "it has been sent again, and refused", func() bool { return y.a.get(t, delivery+"/attempts").at("data.1.status") == "failed" })
	y.to.refuses(false)
	y.a.post(t, delivery+"/replays", ``)
	testkit.Eventually(t, "it has been sent a third time", func() bool { return y.b.get(t, delivery+"/attempts").at("data.2.status") == "succeeded" })
	same(t, delivery+"/attempts", y.a, y.b)
	// Held while the endpoint is disabled, then recovered at the other.
	now := y.a.get(t, "/v1/sandbox/clock").at("now")
	y.b.do(t, "PATCH", path, "", `{"status":"disabled"}`)
	held := y.a.pay(t, "3.00", "").at("id")
	testkit.Eventually(t, "it is held", func() bool { return y.b.get(t, path+"/deliveries?limit=1").at("data.0.state") == "held" })
	y.a.do(t, "PATCH", path, "", `{"status":"active"}`)
	recovery := y.b.post(t, path+"/recoveries", fmt.Sprintf(`{"since":%q}`, now)).at("id")
	testkit.Eventually(t, "it is delivered after all", func() bool { return y.to.has(held) })
	testkit.Eventually(t, "the recovery has ended", func() bool { return y.a.get(t, path+"/recoveries/"+recovery).at("state") == "succeeded" })
	same(t, path+"/recoveries/"+recovery, y.a, y.b)
	ping := y.b.post(t, path+"/test", ``).at("id")
	testkit.Eventually(t, "the ping is delivered", func() bool {
		return y.a.get(t, path+"/deliveries/"+ping+"/attempts").at("data.0.status") == "succeeded"
	})
	y.b.do(t, "DELETE", path, "", "")
}

func checkExpiry(t *testing.T, y yard) {
	hasty := `{"amount":"9.00","currency":"EUR","payee":"shop.example","merchant_account_id":"` + y.ids["hasty"] + `"}`
	expires, released := y.a.post(t, "/v1/payments", hasty).at("id"), y.b.post(t, "/v1/payments", hasty).at("id")
	y.a.post(t, "/v1/payments/"+released+"/captures", `{"amount":"4.00","final_capture":false}`)
	y.advance(t, 2*time.Hour, y.a, y.b)
	testkit.Eventually(t, "one is expired, one released", func() bool {
		return y.b.get(t, "/v1/payments/"+expires).at("status") == "expired" && y.a.get(t, "/v1/payments/"+released).at("amount_released") == "5.00"
	})
	for _, id := range []string{expires, released} {
		same(t, "/v1/payments/"+id, y.a, y.b)
	}
}
