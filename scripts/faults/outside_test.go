package faults

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
)

// receivers take deliveries; the path names the endpoint. One event in ten is refused the
// first time, while things go wrong.
type receivers struct {
	*httptest.Server

	mu    sync.Mutex
	wrong []string
	calm  bool
	count int
	sent  map[string]bool              // what has come before, taken or not
	got   map[string]map[string]string // bodies, by endpoint and event
}

func newReceivers(t *testing.T) *receivers {
	r := &receivers{sent: map[string]bool{}, got: map[string]map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // whoever sent it is dead
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		name, event := strings.TrimPrefix(req.URL.Path, "/"), req.Header.Get("webhook-id")
		first := !r.sent[name+event]
		r.sent[name+event] = true
		if r.count++; r.count%10 == 0 && first && !r.calm {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if before, again := r.got[name][event]; again && before != string(body) {
			r.wrong = append(r.wrong, "event "+event+" came twice, with other bytes: "+before+" and "+string(body))
		}
		r.got[name][event] = string(body)
	}))
	t.Cleanup(r.Close)
	return r
}

// expect makes room for what an endpoint gets, and says where it is.
func (r *receivers) expect(name string) (url string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[name] = map[string]string{}
	return r.URL + "/" + name
}

// of is what the endpoints of an organization got.
func (r *receivers) of(o *org) map[string]map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]map[string]string{}
	for name, got := range r.got {
		if strings.HasPrefix(name, o.id) {
			all[name] = maps.Clone(got)
		}
	}
	return all
}

// bank pays what workers ask it to pay, once for each id. Sometimes nobody hears of it.
type bank struct {
	*httptest.Server
	secret string

	mu    sync.Mutex
	wrong []string
	calm  bool
	asked int
	paid  map[string]int64
	who   map[string]string // by payout: its account
}

func newBank(t *testing.T) *bank {
	b := &bank{secret: "whsec_" + secret(), paid: map[string]int64{}, who: map[string]string{}}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var payout struct {
			Amount  string `json:"amount"`
			Account string `json:"merchant_account_id"`
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		amount, ok := int64(0), false
		if json.Unmarshal(body, &payout, json.RejectUnknownMembers(false)) == nil {
			amount, ok = minor(payout.Amount)
		}
		id := req.Header.Get("Idempotency-Key")
		before, again := b.paid[id]
		switch {
		case !ok || amount <= 0 || payout.Account == "":
			b.wrong = append(b.wrong, "the bank is asked to pay "+string(body))
		case again && before != amount:
			b.wrong = append(b.wrong, "payout "+id+" was paid and is now asked for as "+string(body))
		}
		b.paid[id], b.who[id] = amount, payout.Account
		// Once for each: Tollgate asks again at last only after hours.
		if b.asked++; b.asked%3 == 1 && !again && !b.calm {
			panic(http.ErrAbortHandler) // it is paid, and nobody hears of it
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"paid","reference":"bank"}`)
	}))
	b.Config.ErrorLog = nil
	t.Cleanup(b.Close)
	return b
}

func (b *bank) env() []string {
	return []string{"TOLLGATE_PAYOUT_URL=" + b.URL, "TOLLGATE_PAYOUT_SECRET=" + b.secret}
}

// of is what was paid for the accounts of an organization, by payout.
func (b *bank) of(o *org) map[string]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	paid := map[string]int64{}
	for id, amount := range b.paid {
		if _, own := o.cutoffs[b.who[id]]; own {
			paid[id] = amount
		}
	}
	return paid
}

// relax has everybody outside behave from now on.
func (s *site) relax() {
	s.receivers.mu.Lock()
	s.receivers.calm = true
	s.receivers.mu.Unlock()
	s.bank.mu.Lock()
	s.bank.calm = true
	s.bank.mu.Unlock()
}
