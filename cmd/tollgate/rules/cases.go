package rules

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/rules/source"
	"tollgate/wasm"
)

// caseColumns are those of a CSV file of golden cases.
var caseColumns = []string{"amount", "currency", "payee", "kind", "fee", "label", "lines", "refused", "failed"}

// readCases reads golden cases from CSV. The first row names the columns; label is that
// of fees whose row names none.
func readCases(a *cli.App, file, label string) ([]wasm.GoldenCase, error) {
	text, err := a.ReadInput(file)
	if err != nil {
		return nil, err
	}
	rows := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff"))))
	rows.TrimLeadingSpace = true
	heads, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: the first row names the columns: %s", file, strings.Join(caseColumns, ","))
	}
	for i, head := range heads {
		heads[i] = strings.ToLower(strings.TrimSpace(head))
		if !slices.Contains(caseColumns, heads[i]) || slices.Contains(heads[:i], heads[i]) {
			return nil, fmt.Errorf("%s:1: %q is no column, or stands twice\nExpected: %s", file, head, strings.Join(caseColumns, ","))
		}
	}
	var cases []wasm.GoldenCase
	for {
		cells, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		line, _ := rows.FieldPos(0)
		of := map[string]string{}
		for i, head := range heads {
			of[head] = strings.TrimSpace(cells[i])
		}
		c, err := caseOf(of, label)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, line, err)
		}
		cases = append(cases, c)
	}
	checked, err := json.Marshal(cases)
	if err != nil {
		return nil, err
	}
	if cases, err = wasm.ParseGolden(checked); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return cases, nil
}

// caseOf makes a golden case of a row.
func caseOf(of map[string]string, label string) (c wasm.GoldenCase, err error) {
	c = wasm.GoldenCase{Amount: of["amount"], Currency: tollgate.Currency(of["currency"]), Payee: of["payee"], Refused: of["refused"]}
	switch of["kind"] {
	case "", "payment":
	case string(wasm.GoldenRefund):
		c.Kind = wasm.GoldenRefund
	default:
		return c, fmt.Errorf("kind is %.20q\nExpected: payment or refund", of["kind"])
	}
	switch strings.ToLower(of["failed"]) {
	case "", "false", "no":
	case "true", "yes":
		c.Failed = true
	default:
		return c, fmt.Errorf("failed is %.20q\nExpected: true or false", of["failed"])
	}
	if of["fee"] != "" && of["lines"] != "" {
		return c, errors.New("it has fee and lines\nExpected: fee for one line, or lines for several")
	}
	if fee := of["fee"]; strings.Trim(fee, "0.") != "" {
		c.Lines = append(c.Lines, wasm.GoldenLine{Label: either(of["label"], label), Amount: fee})
	}
	for part := range strings.SplitSeq(of["lines"], ";") {
		name, amount, ok := strings.Cut(part, "=")
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		if !ok {
			return c, fmt.Errorf("lines has %.40q\nExpected: label and amount of each line, such as Card fee=1.39; Platform fee=0.10", part)
		}
		c.Lines = append(c.Lines, wasm.GoldenLine{Label: strings.TrimSpace(name), Amount: strings.TrimSpace(amount)})
	}
	if _, err := c.Input(); err != nil {
		return c, fmt.Errorf("%w\nExpected: an amount such as 100.00 and a currency such as EUR", inputFault(err))
	}
	return c, nil
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// updateGolden rewrites the golden cases beside a rule with what it does now, and tells
// what is different.
func updateGolden(ctx context.Context, r *source.Rule, before []wasm.GoldenCase, to *tested) error {
	dir := r.Dir()
	if dir == "" {
		return cli.UsageError(fmt.Errorf("%s has its golden cases for good: --update is for a rule in a directory", r.Name))
	}
	trial, err := wasm.NewTrial(ctx, r.Citation, r.Module, false)
	if err != nil {
		return err
	}
	defer func() { _ = trial.Close(context.WithoutCancel(ctx)) }()
	after := slices.Clone(r.Golden)
	for i := range after {
		in, err := after[i].Input()
		if err != nil {
			return cli.UsageError(err)
		}
		o, err := trial.Run(ctx, in, true)
		if err != nil {
			return err
		}
		after[i] = after[i].With(&o)
	}
	r.Golden = after
	to.File, to.Changes = filepath.Join(dir, "golden.json"), caseDiff(before, after)
	if len(to.Changes) == 0 {
		return nil
	}
	text, err := goldenText(after)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to.File, text, 0o644); err != nil {
		return cli.UsageError(err)
	}
	return nil
}

// caseDiff says which cases come, go, or have another outcome.
func caseDiff(before, after []wasm.GoldenCase) (lines []string) {
	text := func(c wasm.GoldenCase) string { return c.Name() + ": " + c.Outcome() }
	for i, c := range after {
		same := slices.IndexFunc(before, func(b wasm.GoldenCase) bool { return b.Name() == c.Name() })
		if same < 0 && i < len(before) && before[i].Name() == c.Name() {
			same = i
		}
		switch {
		case same < 0:
			lines = append(lines, "+ "+text(c))
		case text(before[same]) != text(c):
			lines = append(lines, "- "+text(before[same]), "+ "+text(c))
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(after, func(c wasm.GoldenCase) bool { return b.Name() == c.Name() }) {
			lines = append(lines, "- "+text(b))
		}
	}
	return lines
}

// goldenText is golden.json with a case on each line.
func goldenText(cases []wasm.GoldenCase) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("[\n")
	for i, c := range cases {
		text, err := json.Marshal(c, jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
		if err != nil {
			return nil, err
		}
		b.WriteString("  ")
		b.Write(text)
		if i < len(cases)-1 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
	}
	b.WriteString("]\n")
	return b.Bytes(), nil
}
