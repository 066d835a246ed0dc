package rediskv_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/erase"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/testkit"
)

// ofJane are all texts that a payment to her has.
var ofJane = []string{jane, "Order of Jane Doe", "for Jane Doe", "janes-metadata"}

// payJane makes a payment that has all of these, with an answer that is remembered as it was.
func (f *fixture) payJane(t testing.TB) string {
	t.Helper()
	ch, ans := f.Draft(t, f.MerchantAccount(t), eur(1000), jane, tollgate.CaptureAutomatic)
	p := ch.Payment
	p.Reference, p.Description, p.Metadata = &ofJane[1], &ofJane[2], tollgate.Metadata{"note": ofJane[3]}
	ch.Capture.Reference, ch.Capture.Metadata = &ofJane[1], tollgate.Metadata{"note": ofJane[3]}
	for i := range ch.Transactions {
		ch.Transactions[i].Reference = &ofJane[1]
	}
	data := strings.Replace(string(ch.Event.Data), `"reference":null`, `"reference":"`+ofJane[1]+`"`, 1)
	data = strings.Replace(data, `"description":null`, `"description":"`+ofJane[2]+`"`, 1)
	ch.Event.Data = []byte(strings.Replace(data, `"metadata":{}`, `"metadata":{"note":"`+ofJane[3]+`"}`, 1))
	ans.Body, ans.Shows = answer(t, 201, p).Body, false
	_, err := f.CreatePayment(t.Context(), f.Caller, f.Key(p.ID), f.MerchantAccount(t), ch, ans)
	must(t, err)
	return p.ID
}

// inRedis are the keys that have one of some texts, also within packed segments, or from one
// piece of a text to the next.
func inRedis(t *testing.T, url string, texts ...string) (found []string) {
	t.Helper()
	raw := rawClient(t, url)
	for key, value := range keyspace(t, raw) {
		if text, err := raw.Get(t.Context(), key).Result(); err == nil {
			if entries, err := streams.Unpack(text); err == nil {
				value += fmt.Sprint(entries)
			}
		}
		if hash, err := raw.HGetAll(t.Context(), key).Result(); err == nil {
			for name, text := range hash {
				for ; hash[name+"+"] != ""; name += "+" {
					text += hash[name+"+"]
				}
				value += text + hash[name+".+"] + hash[name+".++"]
			}
		}
		for _, text := range texts {
			if strings.Contains(key+value, text) {
				found = append(found, key+": "+text)
			}
		}
	}
	return found
}

// After an erasure nothing has any of it: no key of Redis, and no file at the archive or its
// copy, however it is packed. The audit record names the payments, and never had more.
func TestErasedEverywhere(t *testing.T) {
	for _, layout := range []rediskv.Layout{rediskv.Together, rediskv.Compact, rediskv.Dense} {
		f := newFixture(t)
		must(t, f.WriteLayout(t.Context(), layout))
		at, copied := directory(t), directory(t)
		a := &archived{fixture: f, at: at, copied: copied}
		a.open(t, archive.Options{Rows: 9})
		l := f.packing(t, logs.Options{Rows: 20}, at, copied)
		var to, others []string
		play := func() {
			for range 4 {
				others = append(others, f.Pay(t, eur(500), tollgate.CaptureAutomatic).ID)
				to = append(to, f.payJane(t))
			}
		}
		play()
		must(t, f.GiveBack(t.Context(), to[0], 100, false))
		f.settled(t)
		f.days(200)
		if a.move(t) == 0 {
			t.Fatal("no payment is moved")
		}
		f.NextMilli(t)
		play()
		if n := f.trimNow(t); n == 0 {
			t.Fatal("no events are trimmed")
		}
		f.NextMilli(t)
		play()
		f.cut(t)
		play()
		if layout >= rediskv.Compact {
			for p := range f.Partitions() {
				_, err := f.PostTransactions(t.Context(), p)
				must(t, err)
			}
		}
		before := a.told(t, others)
		k := f.Space(f.Caller.Organization)
		for _, text := range ofJane {
			if r, files := inRedis(t, f.URL, text), inFiles(t, l.shelves, text); len(r) < 3 || len(files) < 2 {
				t.Fatalf("too little has %q: %d keys, %v", text, len(r), files)
			}
		}
		s := erase.New(a.Store, a.archive, l.logs)
		found, err := s.To(t.Context(), k.Org, jane)
		must(t, err)
		var ids []string
		for _, one := range found {
			ids = append(ids, one.Payment)
		}
		if slices.Sort(ids); len(ids) != len(to) {
			t.Errorf("%d of %d are found", len(ids), len(to))
		}
		must(t, s.Erase(t.Context(), k.Org, ids))

		for _, text := range ofJane {
			if r, files := inRedis(t, f.URL, text), inFiles(t, l.shelves, text); len(r)+len(files) > 0 {
				t.Errorf("%q is in %v, %v", text, r, files)
			}
		}
		entries, err := streams.Range(t.Context(), f.DB, k.Audit(), "-", "+", 10_000)
		must(t, err)
		erased := slices.DeleteFunc(entries, func(m redis.XMessage) bool { return !strings.Contains(rediskv.Text(m, "b"), `"payment.erase"`) })
		if len(erased) != len(to) {
			t.Errorf("%d entries of %d", len(erased), len(to))
		}
		for _, id := range to {
			if !slices.ContainsFunc(erased, func(m redis.XMessage) bool { return strings.Contains(rediskv.Text(m, "b"), id) }) {
				t.Errorf("no entry names %s", id)
			}
			p, ticket, err := f.Payment(t.Context(), f.Caller, id)
			if err != nil || p.Payee != "" || p.Reference != nil || p.Description != nil || len(p.Metadata) > 0 || ticket.ErasedAt == 0 || p.ErasedAt != ticket.ErasedAt {
				t.Fatalf("%+v, %+v, %v", p, ticket, err)
			}
			for _, event := range ticket.EventIDs {
				if text, err := f.Event(t.Context(), f.Caller, event, nil); err != nil || !strings.Contains(string(text), `"payee":null`) {
					t.Errorf("%s, %v", text, err)
				}
			}
		}
		sameAnswers(t, "of others", before, a.told(t, others))
		if list, err := s.To(t.Context(), k.Org, jane); err != nil || len(list) > 0 {
			t.Errorf("searched: %v, %v", list, err)
		}
		file := f.file(t, f.export(t, tollgate.DatasetPayments, tollgate.FormatNDJSON, tollgate.ExportFilter{}))
		if strings.Count(file, `"payee":null`) < len(to) || slices.ContainsFunc(ofJane, func(text string) bool { return strings.Contains(file, text) }) || !strings.Contains(file, others[0]) {
			t.Errorf("exported: %s", file)
		}
		wrong, _ := l.findings(t, false)
		for _, one := range wrong {
			t.Errorf("%+v", one)
		}
		for _, one := range a.findings(t) {
			t.Errorf("%+v", one)
		}
		testkit.Consistent(t, f.Store)
		a.settled(t)
		a.days(200)
		a.move(t)
		for p := range f.Partitions() {
			_, err := f.TrimEvents(t.Context(), p, tollgate.At(time.Now().Add(time.Hour)))
			must(t, err)
		}
		for _, text := range ofJane {
			if r, files := inRedis(t, f.URL, text), inFiles(t, l.shelves, text); len(r)+len(files) > 0 {
				t.Errorf("moved: %q is in %v, %v", text, r, files)
			}
		}
		testkit.Consistent(t, f.Store)
	}
}
