package packs_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"tollgate/rediskv/packs"
)

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// paymentRows are like those of an archive: a payment, its ticket and its transactions.
// Identifiers begin with a time and end with chance, digests are chance, and the rest
// repeats.
func paymentRows(n int) (rows []row) {
	r := rand.New(rand.NewPCG(1, 2))
	hex := func(n int) string { return fmt.Sprintf("%0*x", n, r.Uint64())[:n] }
	words := []string{"coffee", "order", "invoice", "summer", "shirt", "ticket", "books", "monthly", "delivery", "bike"}
	word := func() string { return words[r.IntN(len(words))] }
	ms := int64(1_790_000_000_000)
	for range n {
		ms += 1 + r.Int64N(900)
		number := make([]byte, 26)
		for i, t := 9, ms; i >= 0; i, t = i-1, t>>5 {
			number[i] = crockford[t&31]
		}
		for i := 10; i < len(number); i++ {
			number[i] = crockford[r.IntN(32)]
		}
		own := string(number)
		at := fmt.Sprintf("2026-09-%02dT%02d:%02d:%02d.%03dZ", 1+ms/86_400_000%28, ms/3_600_000%24, ms/60_000%60, ms/1000%60, ms%1000)
		amount := 100 + r.IntN(100_000)
		fee := amount * 15 / 1000
		var list []string
		for i, kind := range []string{"authorization", "capture", "refund"}[:1+r.IntN(3)] {
			list = append(list, fmt.Sprintf(`{"position":%d,"transaction":{"object":"transaction","id":"txn_%s%02d","created_at":"%s","type":"%s","amount":%d,"currency":"EUR","fee":%d,"net":%d,"payment_id":"pay_%s","merchant_account_id":"ma_%d"}}`,
				len(rows)*3+i, own, i, at, kind, amount, fee, amount-fee, own, r.IntN(20)))
		}
		text := fmt.Sprintf(`{"id":"pay_%s","organization_id":"org_01HZX3N2W8","revision":%d,"numbers":%d,"counters":[],`, own, r.IntN(4), len(list)) +
			fmt.Sprintf(`"payment":{"object":"payment","id":"pay_%s","created_at":"%s","merchant_account_id":"ma_%d","status":"captured","amount":%d,"currency":"EUR","payee":"%s.example","amount_capturable":0,"amount_captured":%d,"amount_released":0,"amount_refunded":0,"amount_refundable":%d,"capture_method":"automatic","capture_before":"%s","fee_total":%d,"ticket_id":"tkt_%s",`, own, at, r.IntN(20), amount, word(), amount, amount, at, fee, own) +
			fmt.Sprintf(`"perimeter":{"allowed":true,"perimeter_id":"per_01HZX3","version":%d},"reference":"%s-%d","description":"%s %s","metadata":{"cart":"%s"},"cancellation_reason":null,"authorized_at":"%s","captured_at":"%s","canceled_at":null,"expired_at":null,"updated_at":"%s"},`, r.IntN(9), word(), r.IntN(1e6), word(), word(), hex(12), at, at, at) +
			fmt.Sprintf(`"ticket":{"object":"ticket","id":"tkt_%s","created_at":"%s","payment_id":"pay_%s","amount":%d,"currency":"EUR","lines":[{"label":"Service fee","amount":%d,"rule":"acme/service@%d","evaluation":1}],"total":%d,"decision":"allowed",`, own, at, own, amount, fee, r.IntN(3), fee) +
			fmt.Sprintf(`"evaluations":[{"number":1,"kind":"authorization","input":{"amount":%d,"currency":"EUR","payee":"%s.example","capture_index":0},"lines_sha256":"%s","event_id":"evt_%s","at":"%s"}],"event_ids":["evt_%s"]},`, amount, word(), hex(16)+hex(16)+hex(16)+hex(16), own, at, own) +
			`"transactions":[` + strings.Join(list, ",") + `],"captures":[],"refunds":[]}`
		rows = append(rows, row{"pay_" + own, []byte(text)})
	}
	return rows
}

// BenchmarkAdd writes packs of 50,000 rows, in one goroutine.
func BenchmarkAdd(b *testing.B) {
	rows := paymentRows(50_000)
	b.SetBytes(int64(len(lines(rows)) / len(rows)))
	b.ReportAllocs()
	var size, packed int64
	w := packs.NewWriter(io.Discard, "payments", 7)
	for n := 0; b.Loop(); n++ {
		r := rows[n%len(rows)]
		if n > 0 && n%len(rows) == 0 {
			s, err := w.Close()
			if err != nil {
				b.Fatal(err)
			}
			size, packed = size+s.Rows, packed+s.Size
			w = packs.NewWriter(io.Discard, "payments", 7)
		}
		if err := w.Add(r.id, r.text); err != nil {
			b.Fatal(err)
		}
	}
	s, err := w.Close()
	if err != nil {
		b.Fatal(err)
	}
	size, packed = size+s.Rows, packed+s.Size
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(packed)/float64(size), "packed-B/row")
}

// BenchmarkRow reads a frame from memory for each row that it looks up.
func BenchmarkRow(b *testing.B) {
	rows := paymentRows(50_000)
	file, _ := write(b, rows)
	p := open(b, file)
	b.ReportAllocs()
	for n := 0; b.Loop(); n += 7919 {
		r := rows[n%len(rows)]
		in, _ := p.FrameOf(r.id)
		f, err := p.Frame(b.Context(), in)
		if err != nil {
			b.Fatal(err)
		}
		if _, ok := f.Row(r.id); !ok {
			b.Fatal("the row is not there")
		}
	}
}

// BenchmarkOpen reads the index.
func BenchmarkOpen(b *testing.B) {
	file, _ := write(b, paymentRows(50_000))
	b.ReportAllocs()
	for b.Loop() {
		open(b, file)
	}
}
