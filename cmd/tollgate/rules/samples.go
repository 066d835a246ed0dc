package rules

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// outcomeText is what a sample is charged, or why it is not.
func outcomeText(o tollgate.FeeOutcome) string {
	switch {
	case o.Total != nil:
		return o.Total.String()
	case o.Error != nil && o.Error.Rule != nil:
		return string(o.Error.Code) + " " + o.Error.Rule.String()
	case o.Error != nil:
		return string(o.Error.Code)
	}
	return "-"
}

func samplesTable(c *tollgate.FeeComparison) *cli.Table {
	t := &cli.Table{Right: []int{0, 2, 3, 4}}
	t.Row("AMOUNT", "", "FEES BEFORE", "AFTER", "DIFFERENCE")
	for _, s := range c.Samples {
		difference := ""
		if s.Before.Total != nil && s.After.Total != nil {
			difference = tollgate.Money{Minor: s.After.Total.Minor - s.Before.Total.Minor, Currency: s.Currency}.String()
		}
		t.Row(s.Amount.String(), string(s.Currency), outcomeText(s.Before), outcomeText(s.After), difference)
	}
	return t
}

// confirm asks a question on standard error and reports whether the answer is
// yes. Only a person at a terminal can say so.
func confirm(a *cli.App, question string) (bool, error) {
	fmt.Fprintf(a.Stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.Stdin).ReadString('\n')
	if err != nil && err != io.EOF {
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}
