package server

import (
	"log/slog"
	"net/http"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers"
	"tollgate/handlers/docs"
	"tollgate/handlers/mcp"
)

// Beside is what the doors of a service have to know of it.
type Beside struct {
	Issuer  string
	Aliases []string // other names of a sandbox on this machine
	Sandbox bool     // pages of this machine may call the tools
	Log     *slog.Logger
}

// OpenBeside has a service answer what stands beside its API: the pages for people,
// and the tools of agents. serve and dev call it before the first request. Nothing here
// asks Redis but through the API, so that it is there when Redis is not.
func OpenBeside(s *handlers.Server, b Beside) error {
	pages, err := docs.New(docs.About{Version: cli.VersionText(), Status: func() docs.Status { return statusOf(s.Ready()) }})
	if err != nil {
		return err
	}
	for _, path := range []string{docs.Root, docs.Below, docs.Below + "/*page"} {
		s.Open(handlers.Door{Methods: []string{http.MethodGet}, Path: path, Handler: pages})
	}
	s.Explain(docs.Errors)
	s.Open(mcp.Doors(mcp.Site{Server: s, Issuer: b.Issuer, Aliases: b.Aliases, Loopback: b.Sandbox, Version: cli.VersionText(), Log: b.Log})...)
	return nil
}

// statusOf is what the front page says of a service.
func statusOf(payments, quotes bool) docs.Status {
	switch {
	case payments:
		return docs.Ready
	case quotes:
		return docs.QuotesOnly
	default:
		return docs.Unavailable
	}
}
