package server

import (
	"net/http"

	"tollgate/cmd/tollgate/cli"
	"tollgate/handlers"
	"tollgate/handlers/docs"
)

// OpenBeside has a service answer what stands beside its API: the pages for people.
// serve and dev call it before the first request. Nothing here asks Redis but through
// the API, so that it is there when Redis is not.
func OpenBeside(s *handlers.Server) error {
	pages, err := docs.New(docs.About{Version: cli.VersionText(), Status: func() docs.Status { return statusOf(s.Ready()) }})
	if err != nil {
		return err
	}
	for _, path := range []string{docs.Root, docs.Below, docs.Below + "/*page"} {
		s.Open(handlers.Door{Methods: []string{http.MethodGet}, Path: path, Handler: pages})
	}
	s.Explain(docs.Errors)
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
