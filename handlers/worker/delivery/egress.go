package delivery

import (
	"context"
	"errors"
	"net/netip"
	"syscall"

	"tollgate"
	"tollgate/handlers/egress"
)

var errBlocked = errors.New("egress blocked")

// guard looks at each concrete address after names were resolved and just
// before the connection is made: what is checked is what is dialled, so that
// no name server can answer twice (DNS rebinding).
func guard(development bool) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || (network != "tcp4" && network != "tcp6") || !egress.Reachable(to, development) {
			return errBlocked
		}
		return nil
	}
}

// blocked never names the address: it would tell an outsider how the inside
// resolves a name.
func blocked() *tollgate.AttemptError {
	return &tollgate.AttemptError{Code: "egress_blocked", Message: "The endpoint's URL leads to an address that deliveries must not go to."}
}
