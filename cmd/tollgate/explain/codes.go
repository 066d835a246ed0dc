package explain

import (
	"fmt"
	"strings"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers/problem"
)

// explainCode explains an error code, nil for anything else. It asks no service; url
// may be empty.
func explainCode(a *cli.App, url, code string) *explanation {
	h, ok := cli.HelpOf(code)
	if !ok {
		return nil
	}
	e := &explanation{ID: code, Kind: "code", About: "why a payment or a delivery was refused", Objects: []cli.Raw{}, Story: []moment{}, Next: []step{}, Unread: []gap{}, Links: []string{}}
	if _, ok := cli.Codes[tollgate.Code(code)]; ok {
		e.Kind, e.About = "error_code", fmt.Sprintf("an error code of the API, with status %d", problem.StatusOf(tollgate.Code(code)))
	}
	e.facts.Row("what", h.What)
	e.facts.Row("do", h.Do)
	if h.Next != "" {
		command := strings.NewReplacer("{payment}", "$PAYMENT", "{perimeter}", "$PERIMETER", "{rule}", "$RULE").Replace(h.Next)
		e.Next = append(e.Next, step{cli.ShellQuote(a.Program) + " " + command, ""})
	}
	if url != "" {
		e.Links = append(e.Links, strings.TrimSuffix(url, "/")+"/docs/errors#"+code)
	}
	return e
}
