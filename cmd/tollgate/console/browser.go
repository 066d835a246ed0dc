package console

import (
	"context"
	"fmt"
	"html"
	"os"
	"path/filepath"

	"tollgate/cmd/tollgate/cli"
)

// openBrowser shows an address in the person's browser. The address has a token in it,
// and other users of the machine can read what a command is called with: the browser is
// given a file that only this person can read, and that leads on. forget removes it.
func openBrowser(ctx context.Context, a *cli.App, address string) (forget func(), err error) {
	dir, err := os.MkdirTemp("", "tollgate-console-") // mode 0700
	if err != nil {
		return func() {}, err
	}
	forget = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "open.html")
	page := fmt.Sprintf("<!doctype html><meta charset=\"utf-8\"><title>Tollgate console</title><meta http-equiv=\"refresh\" content=\"0; url=%[1]s\"><a href=\"%[1]s\">Tollgate console</a>\n", html.EscapeString(address))
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return forget, err
	}
	return forget, a.Browse(ctx, file)
}
