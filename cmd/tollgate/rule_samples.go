package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"tollgate"
)

// feeComparison is what sample amounts are charged before and after an
// activation, as the service has priced them.
type feeComparison struct {
	Payee   string   `json:"payee"`
	Before  []string `json:"before"`
	After   []string `json:"after"`
	Samples []struct {
		Amount   string            `json:"amount"`
		Currency tollgate.Currency `json:"currency"`
		Before   feeOutcome        `json:"before"`
		After    feeOutcome        `json:"after"`
	} `json:"samples"`
}

type feeOutcome struct {
	Total *string `json:"total"`
	Error *struct {
		Code string `json:"code"`
		Rule string `json:"rule"`
	} `json:"error"`
}

func (o feeOutcome) String() string {
	switch {
	case o.Total != nil:
		return *o.Total
	case o.Error != nil:
		return strings.TrimSpace(o.Error.Code + " " + o.Error.Rule)
	}
	return "-"
}

func (c *feeComparison) table() *table {
	t := &table{right: []int{0, 2, 3, 4}}
	t.row("AMOUNT", "", "FEES BEFORE", "AFTER", "DIFFERENCE")
	for _, s := range c.Samples {
		difference := ""
		if s.Before.Total != nil && s.After.Total != nil {
			before, err := tollgate.ParseMoney(*s.Before.Total, s.Currency)
			after, failed := tollgate.ParseMoney(*s.After.Total, s.Currency)
			if err == nil && failed == nil {
				difference = tollgate.Money{Minor: after.Minor - before.Minor, Currency: s.Currency}.String()
			}
		}
		t.row(s.Amount, string(s.Currency), s.Before.String(), s.After.String(), difference)
	}
	return t
}

// confirm asks a question on standard error and reports whether the answer is
// yes. Only a person at a terminal can say so.
func (a *app) confirm(question string) (bool, error) {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}
