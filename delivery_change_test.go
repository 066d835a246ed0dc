package tollgate_test

import (
	"testing"
	"time"

	"tollgate"
)

func TestPingWebhook(t *testing.T) {
	w := endpoint(t, tollgate.SignatureV1)
	for status, state := range map[string]tollgate.DeliveryState{tollgate.WebhookActive: tollgate.DeliveryPending, tollgate.WebhookDisabledStatus: tollgate.DeliveryHeld} {
		w.Status = status
		p, err := tollgate.PingWebhook(testMint, testOrigin, &w)
		if err != nil || p.Delivery.State != state || p.Revision != 7 {
			t.Errorf("%s: %+v %v", status, p, err)
		}
		if p.Delivery.ID != tollgate.DeliveryOf(p.Event.ID, "we_1") || p.Event.Type != tollgate.EventPing || string(p.Event.Data) != `{"webhook_id":"we_1"}` {
			t.Errorf("%+v", p)
		}
	}
}

func TestReplayDelivery(t *testing.T) {
	reason := "lost"
	for _, state := range tollgate.DeliveryStates {
		r, err := tollgate.ReplayDelivery(testMint, testOrigin, tollgate.Delivery{ID: "dlv_1", EventID: "evt_1", WebhookID: "we_1", State: state}, &reason)
		if state == tollgate.DeliverySending {
			if codeOf(err) != "delivery_in_progress" || r != nil {
				t.Errorf("%s: %+v %v", state, r, err)
			}
			continue
		}
		data := `{"delivery_id":"dlv_1","replay_id":"` + testMint(tollgate.PrefixReplay) + `","webhook_id":"we_1","event_id":"evt_1","reason":"lost"}`
		if err != nil || r.Replay.State != tollgate.DeliveryPending || r.Event.Type != tollgate.DeliveryReplayed || string(r.Event.Data) != data {
			t.Errorf("%s: %+v %v", state, r, err)
		}
	}
}

func TestRecoverWebhook(t *testing.T) {
	if _, err := tollgate.RecoverWebhook(testMint, testOrigin, "we_1", testNow+1); codeOf(err) != "parameter_invalid since" {
		t.Errorf("from tomorrow: %v", err)
	}
	r, err := tollgate.RecoverWebhook(testMint, testOrigin, "we_1", testNow)
	if err != nil || r.State != tollgate.RecoveryPending || r.WebhookID != "we_1" {
		t.Fatalf("%+v %v", r, err)
	}
	event := func(after time.Duration) tollgate.Delivery {
		return tollgate.Delivery{EventID: tollgate.NewID(tollgate.PrefixEvent, testNow.Add(after).Time(), zeros{})}
	}
	earlier, then, expired := event(-time.Millisecond), event(0), tollgate.Delivery{}
	missed := r.Advance([]tollgate.Delivery{earlier, then, expired}, false, testNow)
	if len(missed) != 1 || missed[0] != then || r.Looked != 3 || r.State != tollgate.RecoveryRunning || r.CompletedAt != 0 {
		t.Errorf("%+v %+v", missed, r)
	}
	if missed = r.Advance(nil, true, testNow); missed != nil || r.Looked != 3 || r.State != tollgate.RecoverySucceeded || r.CompletedAt != testNow {
		t.Errorf("%+v %+v", missed, r)
	}
}
