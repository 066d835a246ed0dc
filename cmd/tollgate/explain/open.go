package explain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tollgate"
	"tollgate/cmd/tollgate/cli"
)

func openCommand(a *cli.App) *cobra.Command {
	show, asJSON := false, false
	c := &cobra.Command{
		Use:   "open ID",
		Short: "Open an id in the console",
		Long: `Print the console's link to an id. At a terminal with a browser, open it as well.

In the sandbox of 'tollgate dev' the console is part of the service. Elsewhere
'tollgate console' runs it on this machine, and this command says so.`,
		Example:           "  tollgate open $PAYMENT\n  tollgate open $PAYMENT --print",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.CompleteIDs("/v1/payments"),
		RunE: func(cmd *cobra.Command, args []string) error {
			base := strings.TrimSuffix(a.Config(cmd).Text("url"), "/")
			u, err := url.Parse(base)
			switch {
			case !tollgate.ValidID(args[0]):
				return cli.UsageError(fmt.Errorf("%q is no id", args[0]))
			case err != nil || u.Host == "":
				return cli.UsageError(errors.New("set TOLLGATE_URL, for instance by sourcing the file that 'tollgate dev --write-env FILE' writes"))
			}
			sandbox, err := isSandbox(cmd.Context(), base)
			if err != nil {
				return cli.UnavailableError(err)
			}
			if !sandbox {
				return cli.UsageError(fmt.Errorf("%s has no console of its own: run '%s console', and open /console/%s at the address that it prints", base, a.Program, args[0]))
			}
			link := consoleLink(base, args[0])
			if asJSON {
				return a.PrintJSON(map[string]string{"id": args[0], "url": link})
			}
			if _, err := fmt.Fprintln(a.Stdout, link); err != nil || show || !a.AtTerminal() {
				return err
			}
			_ = a.Browse(cmd.Context(), link) // the link is printed
			return nil
		},
	}
	c.Flags().BoolVar(&show, "print", false, "only print the link")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func consoleLink(base, id string) string { return base + "/console/" + id }

// isSandbox asks a service whether it is one: only a sandbox has a clock to move.
func isSandbox(ctx context.Context, base string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/sandbox/clock", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	response.Body.Close()
	return response.StatusCode == http.StatusUnauthorized, nil // and no 404
}

// links are where to read on about an id.
func links(ctx context.Context, api *cli.Client, id string) []string {
	if sandbox, err := isSandbox(ctx, api.Base); err == nil && sandbox {
		return []string{consoleLink(api.Base, id)}
	}
	return []string{"/console/" + id + " in 'tollgate console'"}
}
