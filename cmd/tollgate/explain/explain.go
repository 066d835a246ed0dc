// Package explain says what an id or an error code stands for: what it is, its story,
// and what can be done now.
package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

// Commands are explain and what leads from an id to its page.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{explainCommand(a), openCommand(a)}
}

// explanation is what explain prints, and its JSON.
type explanation struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	About   string    `json:"about"`
	Objects []cli.Raw `json:"objects"` // as the API answers them
	Story   []moment  `json:"story"`
	Next    []step    `json:"next"`
	Unread  []gap     `json:"unread"`
	Links   []string  `json:"links"`

	facts cli.Table
}

// moment is something that happened.
type moment struct {
	At   tollgate.Instant `json:"at"`
	What string           `json:"what"`
	ID   string           `json:"id"`
}

// step is a command that works now.
type step struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// gap is what could not be read.
type gap struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

func explainCommand(a *cli.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "explain ID|CODE",
		Short: "Say what an id or an error code is, what happened, and what you can do now",
		Long: `Say what an id is, its story in time order, what you can do now, and where to
read on. An error code works too, and so do a perimeter's reason and the error of
a delivery.

It reads what your token may read, and says what it could not. --json prints the
objects as the API answers them, with the story beside them.`,
		Example: `  tollgate explain $PAYMENT
  tollgate explain perimeter_denied
  tollgate explain $TICKET --json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/payments"),
	}
	a.ClientCommand(c, func(ctx context.Context, api *cli.Client, args []string) error {
		asJSON, quiet := api.JSON, api.Quiet
		api.JSON = false // a refusal is said in the explanation
		e, err := explain(ctx, api, args[0])
		if e == nil {
			return err
		}
		api.JSON = asJSON
		body, failed := json.Marshal(e, json.Deterministic(true))
		if failed != nil {
			return failed
		}
		if asJSON || quiet {
			return errors.Join(api.Show(body, e.Kind, nil), err)
		}
		return errors.Join(e.print(a), err)
	})
	c.Flags().Lookup("json").Usage = "print the API's objects and the story as JSON"
	c.Flags().Lookup("quiet").Usage = "print only what it is, such as payment"
	run := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if e := explainCode(a, a.Config(cmd).Text("url"), args[0]); e != nil { // needs no service
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return a.PrintJSON(e)
			}
			return e.print(a)
		}
		return run(cmd, args)
	}
	return c
}

// explain finds out about an id. With an error there may be an explanation of what is
// known in spite of it.
func explain(ctx context.Context, api *cli.Client, id string) (*explanation, error) {
	if strings.HasPrefix(id, "rule:") { // a citation is a rule's id in other words
		c, err := tollgate.ParseCitation(id)
		if err != nil {
			return nil, cli.UsageError(err)
		}
		id = tollgate.RuleID(c)
	}
	i := slices.IndexFunc(kinds, func(k kind) bool { return strings.HasPrefix(id, k.prefix) })
	if i < 0 || !tollgate.ValidID(id) {
		return nil, cli.UsageError(fmt.Errorf("%q is no id of Tollgate and no error code\nAn id begins with one of %s\nTry: %s events", id, prefixes(), api.App.Program))
	}
	k := kinds[i]
	e := &explanation{ID: id, Kind: k.name, About: k.about, Objects: []cli.Raw{}, Story: []moment{}, Next: []step{}, Unread: []gap{}, Links: links(ctx, api, id)}
	r := &reader{Client: api, ctx: ctx, e: e}
	if err := r.askScopes(); err != nil {
		return nil, err
	}
	found := k.read(r, id)
	if at, ok := tollgate.IDTime(id); ok && !found {
		e.facts.Row("made", tollgate.At(at).String()+", as its id says")
	}
	var refused *cli.Refusal
	switch {
	case r.err != nil && errors.As(r.err, &refused) && refused.Code == tollgate.CodeNotFound, r.err == nil && !found && len(e.Unread) == 0 && k.path:
		return nil, fmt.Errorf("there is no %s %s in your organization, or your grant does not cover it\nTry: %s", k.name, id, cli.ShellQuote(api.App.Program)+" "+k.list)
	case r.err != nil:
		return nil, r.err
	}
	slices.SortStableFunc(e.Story, func(a, b moment) int { return int(a.At - b.At) })
	if !found && len(e.Unread) > 0 && k.path {
		return e, fmt.Errorf("%s could not be read: %s\nTry: %s whoami", id, e.Unread[0].Why, cli.ShellQuote(api.App.Program))
	}
	return e, nil
}

// prefixes are those of all ids.
func prefixes() string {
	var all []string
	for _, k := range kinds {
		all = append(all, k.prefix)
	}
	return strings.Join(all, " ")
}

// print prints the explanation for people.
func (e *explanation) print(a *cli.App) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is %s.\n", cli.Printable(e.ID), e.About)
	part := func(head string, t *cli.Table) {
		if len(t.Rows) > 0 {
			t.Indent = "  "
			fmt.Fprintf(&b, "\n%s\n%s", head, t)
		}
	}
	part("What is known", &e.facts)
	story, next, unread, links := &cli.Table{}, &cli.Table{}, &cli.Table{}, &cli.Table{}
	for _, m := range e.Story {
		story.Row(cli.Moment(m.At), m.What, m.ID)
	}
	for _, s := range e.Next {
		next.Row(s.Command, s.Why)
	}
	for _, g := range e.Unread {
		unread.Row(g.What, g.Why)
	}
	for _, l := range e.Links {
		links.Row(l)
	}
	part("What happened", story)
	part("What you can do now", next)
	part("What could not be read", unread)
	part("Read on", links)
	_, err := fmt.Fprint(a.Stdout, b.String())
	return err
}
