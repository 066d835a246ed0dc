package cli

import (
	"errors"
	"net/http"
	"strings"

	"tollgate"
)

// next is the command to try after an error, "" where there is none.
func (a *App) next(err error) string {
	var refused *Refusal
	var exit *ExitError
	command := ""
	switch {
	case errors.As(err, &refused):
		command = refused.next()
	case errors.As(err, &exit) && exit.Code == ExitUnavailable && !errors.Is(err, ErrErased):
		command = "doctor"
	}
	if command == "" || len(a.args) > 0 && a.args[0] == command {
		return "" // what was just tried
	}
	return ShellQuote(a.Program) + " " + command
}

// next is what to try after a refusal: the command of its code with what the refusal
// names, else what the code means.
func (r *Refusal) next() string {
	h := Codes[r.Code]
	command, complete := r.fill(h.Next)
	switch {
	case command != "" && complete:
		return command
	case h.What != "":
		return "explain " + string(r.Code)
	case r.Status == http.StatusUnauthorized || r.Status == http.StatusForbidden:
		return "whoami"
	case r.Status >= 500:
		return "doctor"
	}
	return ""
}

// fill puts what the refusal names into a command; false where it does not name it.
func (r *Refusal) fill(command string) (filled string, complete bool) {
	names := map[string]string{"{payment}": r.PaymentID, "{ticket}": r.TicketID}
	if r.Perimeter != nil {
		names["{perimeter}"] = r.Perimeter.ID
	}
	if r.Rule != nil {
		names["{rule}"] = tollgate.RuleID(*r.Rule)
	}
	for name, value := range names {
		if tollgate.ValidID(value) { // it is a server's: a word of a shell, or nothing
			command = strings.ReplaceAll(command, name, value)
		}
	}
	return command, !strings.Contains(command, "{")
}
