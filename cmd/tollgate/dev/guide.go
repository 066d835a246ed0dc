package dev

import (
	"fmt"
	"net/url"
	"strings"

	"tollgate/cmd/sandbox"
	"tollgate/cmd/tollgate/cli"
)

// consoleVariable is the address of the console, for scripts.
const consoleVariable = "TOLLGATE_CONSOLE"

// printGuide says what is running and what to paste next. Every command in it
// works as printed, in the order printed; a test does that.
func printGuide(a *cli.App, env []sandbox.Variable, page string, o devOptions) error {
	var b strings.Builder
	kept := "an embedded Redis: everything is lost when it stops"
	switch {
	case o.redis != "" && o.lasting:
		kept = redactURL(o.redis) + ": everything is kept there"
	case o.redis != "":
		kept = redactURL(o.redis) + ": everything is lost when that Redis stops, it keeps no append-only file"
	}
	head := &cli.Table{}
	head.Row("Tollgate", "listens on "+env[0].Value)
	if page != "" {
		head.Row("Console", page)
	}
	head.Row("Data", "in "+kept)
	head.Row("Magic payees", "deny.test    the perimeter denies it")
	head.Row("", "refuse.test  a rule refuses it")
	head.Row("", "trap.test    a rule crashes, and the payment is not made")
	head.Row("", "loop.test    a rule never ends, and is stopped")
	fmt.Fprintf(&b, "%s\nPaste into another shell:\n\n", head)

	tollgate := cli.ShellQuote(a.Program)
	if o.writeEnv != "" {
		fmt.Fprintf(&b, "  set -a; . %s; set +a\n", sourcePath(o.writeEnv))
	} else {
		for _, v := range env {
			if v.Name != "TOLLGATE_TOKEN" && v.Name != consoleVariable { // one would be old soon, no command reads the other
				fmt.Fprintf(&b, "  export %s=%s\n", v.Name, cli.ShellQuote(v.Value))
			}
		}
	}
	if o.workerd == "" {
		fmt.Fprintf(&b, `  curl -s "$TOLLGATE_URL/v1/merchant-accounts" -H "Authorization: Bearer $(curl -s "$TOLLGATE_URL%s" -H 'Accept: text/plain')"`+"\n", tokenPath)
	}
	for _, line := range []string{
		"token",
		"quote 100.00 EUR shop.example",
		"",
		"capture $PAYMENT 60.00 --final=false",
		"capture $PAYMENT",
		"ticket $PAYMENT",
		"transactions --payment $PAYMENT",
		"events",
		"deliveries " + sandbox.Webhook,
	} {
		if line == "" {
			fmt.Fprintf(&b, "  PAYMENT=$(%s pay 100.00 EUR shop.example --quiet)\n", tollgate)
			continue
		}
		fmt.Fprintf(&b, "  %s %s\n", tollgate, line)
	}
	fmt.Fprintf(&b, `  curl -s -H "Authorization: Bearer $(%s token --quiet)" "$TOLLGATE_URL/v1/payments/$PAYMENT"`+"\n\n", tollgate)
	fmt.Fprintf(&b, "'%[1]s events --follow' shows what happens as it happens, '%[1]s trigger payment.captured' makes it\n"+
		"happen, '%[1]s listen 3000' delivers it to your program on that port,\n"+
		"'%[1]s clock advance 120h' lets time pass.\n"+
		"Ctrl-C ends the service.\n", a.Program)
	_, err := fmt.Fprint(a.Stdout, b.String())
	return err
}

// sourcePath is a path that the shell's dot command takes for a path and does
// not look up in PATH.
func sourcePath(path string) string {
	if !strings.Contains(path, "/") {
		path = "./" + path
	}
	return cli.ShellQuote(path)
}

// redactURL hides a password.
func redactURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the given Redis"
	}
	return u.Redacted()
}
