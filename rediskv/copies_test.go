package rediskv_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// A copy is what another process reads in Redis, in every member of payment and
// ticket, whatever was done to the payment and whether it was read or written last.
func TestCopiesAreWhatIsStored(t *testing.T) {
	url := redistest.URL(t)
	f := newFixtureAt(t, url)
	other := f.Through(open(t, url, f.Clock))
	random := rand.New(rand.NewPCG(3, 5))
	compared := 0
	same := func(what, id string) {
		t.Helper()
		p, ticket := f.Kept(f.Caller.Organization, id)
		if p == nil {
			return
		}
		compared++
		if is, isTicket := other.Read(t, id); !reflect.DeepEqual(p, is) || !reflect.DeepEqual(ticket, isTicket) {
			t.Fatalf("%s: the copy\n%+v\n%+v\nis stored as\n%+v\n%+v", what, p, ticket, is, isTicket)
		}
	}
	for range 30 {
		method := tollgate.CaptureManual
		if random.IntN(3) == 0 {
			method = tollgate.CaptureAutomatic
		}
		a := f.MerchantAccount(t)
		ch, ans := f.Draft(t, a, eur(random.Int64N(2000)+10), "shop.example", method)
		must(t, err2(f.CreatePayment(t.Context(), f.Caller, f.Key(f.NewID("")), a, ch, ans)))
		id := ch.Payment.ID
		same("created", id)
		for range 6 {
			var what string
			switch n := random.Int64N(4) + 1; random.IntN(6) {
			case 0:
				what, _ = "canceled", f.Move(t.Context(), id, tollgate.TriggerCancel)
			case 1, 2:
				what, _ = "refunded", f.GiveBack(t.Context(), id, n, n == 2)
			default:
				what, _ = "captured", f.Capture(t.Context(), id, n, n == 4)
			}
			f.Clock.Advance(time.Minute)
			same(what, id)
		}
	}
	if compared < 100 {
		t.Errorf("%d copies were compared", compared)
	}
}

// err2 is the error of two results.
func err2[T any](_ T, err error) error { return err }

// A Redis that has lost its latest writes makes the same revision again, of other
// changes. What was computed from a copy of the lost one is not written.
func TestCopyOfALostRevision(t *testing.T) {
	url := redistest.URL(t)
	f := newFixtureAt(t, url)
	other := f.Through(open(t, url, f.Clock))
	raw := rawClient(t, url)
	p := f.Pay(t, eur(1000), tollgate.CaptureManual)
	k := f.Space(f.Caller.Organization)
	payment, err := raw.HGetAll(t.Context(), k.Object(p.ID)).Result()
	must(t, err)
	ticket, err := raw.Get(t.Context(), k.Object(p.TicketID)).Result()
	must(t, err)
	must(t, f.Capture(t.Context(), p.ID, 600, false))

	must(t, raw.Del(t.Context(), k.Object(p.ID)).Err())
	must(t, raw.HSet(t.Context(), k.Object(p.ID), payment).Err())
	must(t, raw.Set(t.Context(), k.Object(p.TicketID), ticket, 0).Err())
	must(t, other.Capture(t.Context(), p.ID, 100, false))

	kept, text := f.Kept(f.Caller.Organization, p.ID)
	if now, _ := other.Read(t, p.ID); kept == nil || kept.Revision != now.Revision || kept.AmountCaptured == now.AmountCaptured {
		t.Fatalf("the copy is %+v, and stored is %+v", kept, now)
	}
	ch, err := tollgate.TransitionPayment(f.NewID, f.Origin(f.Caller), kept, text, tollgate.TriggerCancel, nil)
	must(t, err)
	_, err = f.Transition(t.Context(), f.Caller, nil, nil, ch, rediskv.Answer{Status: 200, Body: []byte("{}")})
	if !errors.Is(err, rediskv.ErrConflict) {
		t.Errorf("committed from a copy of what is lost: %v", err)
	}
	if kept, _ = f.Kept(f.Caller.Organization, p.ID); kept != nil {
		t.Error("the copy is still there")
	}
}
