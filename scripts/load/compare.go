package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"tollgate/cmd/sandbox"
	"tollgate/rediskv"
)

// compare sends every kind of request whose cost could grow with what there is to two
// Redis in turn, one with few payments and one with many, and prints what the second
// takes as a multiple of the first.
func compare(ctx context.Context, out io.Writer, few, many string, rounds int, o options) error {
	o.span = 0
	var markets [2]*market
	for i, url := range []string{few, many} {
		if err := loopback(url); err != nil {
			return err
		}
		m, err := open(ctx, rediskv.Options{URL: url}, o, nil)
		if err != nil {
			return err
		}
		defer m.close()
		if err := m.sample(ctx); err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		markets[i] = m
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "request\tp50\tp99\tp50 of few\tp99 of few\t")
	for _, asked := range requests {
		took, err := inTurn(ctx, asked, markets, rounds)
		if errors.Is(err, errNone) {
			fmt.Fprintf(table, "%s\t–\t–\t%v\t\t\n", asked.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", asked.name, err)
		}
		at := func(list []time.Duration, hundredth int) time.Duration { return list[(len(list)-1)*hundredth/100] }
		ratio := func(hundredth int) float64 { return float64(at(took[1], hundredth)) / float64(at(took[0], hundredth)) }
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%s\t%s\t\n", asked.name, ratio(50), ratio(99), at(took[0], 50).Round(time.Microsecond), at(took[0], 99).Round(time.Microsecond))
	}
	return table.Flush()
}

// A kind of request that takes long is sent no longer than this, and a few times.
const longest, least = 30 * time.Second, 5

// inTurn is how long requests of a kind took each of two markets, the shortest first.
func inTurn(ctx context.Context, asked request, markets [2]*market, rounds int) (took [2][]time.Duration, err error) {
	begun := time.Now()
	for n := range rounds {
		if n >= least && time.Since(begun) > longest {
			break
		}
		for i, m := range markets {
			one, err := m.timed(ctx, asked)
			if err != nil {
				return took, err
			}
			took[i] = append(took[i], one)
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	return took, nil
}

// errNone says that there is nothing that could be asked for.
var errNone = errors.New("there is none")

// request is one kind. make returns a request; what it has to make before is not measured.
type request struct {
	name string
	make func(ctx context.Context, m *market) (method, path, body string, err error)
}

func get(name, path string) request { return asks(name, http.MethodGet, path, "") }

// asks is a request in which {name} stands for one of the ids of that name that there are.
func asks(name, method, path, body string) request {
	return request{name, func(_ context.Context, m *market) (string, string, string, error) {
		asked := path
		for {
			before, rest, found := strings.Cut(asked, "{")
			if !found {
				return method, asked, body, nil
			}
			id, behind, _ := strings.Cut(rest, "}")
			if len(m.ids[id]) == 0 {
				return "", "", "", errNone
			}
			asked = before + m.ids[id][mathrand.IntN(len(m.ids[id]))] + behind
		}
	}}
}

// ofNew is a request about a payment that was made for it.
func ofNew(name, path, body string, method string) request {
	return request{name, func(ctx context.Context, m *market) (string, string, string, error) {
		status, answer, err := m.api.post(ctx, "/v1/payments", fmt.Sprintf(newPayment, method))
		var payment struct{ ID string }
		if err == nil && (status != http.StatusCreated || json.Unmarshal(answer, &payment) != nil) {
			err = fmt.Errorf("%d %s", status, answer)
		}
		return http.MethodPost, "/v1/payments/" + payment.ID + path, body, err
	}}
}

const (
	newQuote   = `{"merchant_account_id":"` + sandbox.AccountEUR + `","amount":"10.00","currency":"EUR","payee":"shop.example"}`
	newPayment = `{"merchant_account_id":"` + sandbox.AccountEUR + `","amount":"10.00","currency":"EUR","payee":"shop.example","capture_method":%q}`
)

var requests = []request{
	asks("quote", http.MethodPost, "/v1/quotes", newQuote),
	asks("payment", http.MethodPost, "/v1/payments", fmt.Sprintf(newPayment, "manual")),
	asks("payment, captured at once", http.MethodPost, "/v1/payments", fmt.Sprintf(newPayment, "automatic")),
	ofNew("capture", "/captures", `{}`, "manual"),
	ofNew("cancel", "/cancel", `{}`, "manual"),
	ofNew("refund", "/refunds", `{}`, "automatic"),
	get("payment by id", "/v1/payments/{payment}"),
	get("ticket by id", "/v1/tickets/{ticket}"),
	get("refunds of a payment", "/v1/payments/{payment}/refunds"),
	get("refund by id", "/v1/refunds/{refund}"),
	get("event by id", "/v1/events/{event}"),
	get("payout by id", "/v1/payouts/{payout}"),
	get("payments, newest", "/v1/payments?limit=20"),
	get("payments, oldest", "/v1/payments?limit=20&order=asc"),
	get("payments of an account", "/v1/payments?limit=20&merchant_account_id="+sandbox.AccountEUR),
	get("payments of a payee", "/v1/payments?limit=20&payee={payee}"),
	get("payment by reference", "/v1/payments?limit=20&reference={reference}"),
	get("payments in a currency", "/v1/payments?limit=20&currency=USD"),
	get("expired payments", "/v1/payments?limit=20&status=expired"),
	get("transactions, newest", "/v1/transactions?limit=20"),
	get("transactions of a payee", "/v1/transactions?limit=20&payee={payee}"),
	get("payouts, newest", "/v1/payouts?limit=20"),
	get("events, oldest", "/v1/events?limit=20"),
	get("events, newest", "/v1/events?limit=20&order=desc"),
	get("events of a payment", "/v1/events?limit=20&object_id={payment}"),
	get("audit entries, newest", "/v1/audit?limit=20"),
	get("exports", "/v1/exports?limit=20"),
	get("merchant account by id", "/v1/merchant-accounts/"+sandbox.AccountEUR),
	get("perimeter by id", "/v1/perimeters/"+perimeter),
	asks("payout preview", http.MethodPost, "/v1/cutoffs/preview", `{"merchant_account_id":"`+sandbox.AccountEUR+`","proposed":{"cutoff_time":"12:00"}}`),
}

// timed sends a request once, and reports how long its answer took.
func (m *market) timed(ctx context.Context, asked request) (time.Duration, error) {
	method, path, body, err := asked.make(ctx, m)
	if err != nil {
		return 0, err
	}
	key := ""
	if method == http.MethodPost && path != "/v1/quotes" && path != "/v1/cutoffs/preview" {
		key = rand.Text()
	}
	w, took, err := m.api.once(ctx, method, path, body, key)
	if err == nil && w.Code/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	return took, err
}

// sample finds some ids of everything that is there, of different times.
func (m *market) sample(ctx context.Context) error {
	m.ids = map[string][]string{}
	lists := []string{"/v1/payments?order=asc&", "/v1/events?", "/v1/events?order=desc&", "/v1/payouts?", "/v1/transactions?", "/v1/transactions?type=refund&"}
	for days := range 30 {
		lists = append(lists, "/v1/payments?created_before="+time.Now().AddDate(0, 0, -days).UTC().Format(time.RFC3339)+"&")
	}
	for _, list := range lists {
		w, _, err := m.api.once(ctx, http.MethodGet, list+"limit=100", "", "")
		if err != nil {
			return err
		}
		var page struct {
			Data []struct {
				ID, Payee, Reference string
				Refund               string `json:"refund_id"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
			return fmt.Errorf("%s: %d %s", list, w.Code, w.Body)
		}
		for _, one := range page.Data {
			if one.Refund != "" {
				m.ids["refund"] = append(m.ids["refund"], one.Refund)
			}
			switch kind, rest, _ := strings.Cut(one.ID, "_"); kind {
			case "pay":
				m.ids["payment"], m.ids["ticket"] = append(m.ids["payment"], one.ID), append(m.ids["ticket"], "tkt_"+rest)
				m.ids["payee"] = append(m.ids["payee"], one.Payee)
				if one.Reference != "" {
					m.ids["reference"] = append(m.ids["reference"], one.Reference)
				}
			case "evt":
				m.ids["event"] = append(m.ids["event"], one.ID)
			case "po":
				m.ids["payout"] = append(m.ids["payout"], one.ID)
			}
		}
	}
	return nil
}
