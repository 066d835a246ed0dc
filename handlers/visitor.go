package handlers

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/oauth"
	"tollgate/handlers/problem"
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
)

// Visitor is the client of a request that comes through a Door, by the access token that
// was verified there: it is genuine, has not expired, and the client has proved that it
// has the key that the token is bound to.
type Visitor struct {
	oauth.Presented

	mu     sync.Mutex
	burned bool // the proof, for all that the request writes
}

// Present reads who comes through a Door, whose answer is w. Redis is not asked. Whether
// the grant is in force and has a scope, each route says that the door calls with the
// same token. A refusal has its trace.
func (s *Server) Present(w http.ResponseWriter, req *http.Request) (*Visitor, *tollgate.Error) {
	c := w.(*call)
	v, by, refused := s.present(req)
	if refused == nil {
		c.token, c.client, c.org = v.Token, v.Token.ClientID, v.Token.Organization
		return v, nil
	}
	c.rate, c.silent = by, by != nil
	return nil, s.Refuse(w, problem.StatusOf(refused.Code), refused)
}

// Refuse leaves one trace of what a Door refuses, as of what a route does (interface §5),
// before it is told. It returns what the client is told: e, or that too many of its
// requests were refused, with Retry-After in the header.
func (s *Server) Refuse(w http.ResponseWriter, status int, e *tollgate.Error) *tollgate.Error {
	return cmp.Or(s.refuse(w.(*call), status, e, e), e)
}

// present verifies who asks. From an address that has sent too many wrong signatures only
// tokens are taken that need none, and the count says when it may go on.
func (s *Server) present(req *http.Request) (*Visitor, *gcra.Count, *tollgate.Error) {
	var by *gcra.Count
	p, refused := s.oauth.Present(req, func() (err error) {
		by, err = s.rates.Guard(s.transport.Proxies.From(req))
		return err
	})
	if refused != nil {
		s.forged(req, refused)
		return nil, by, refused
	}
	return &Visitor{Presented: p}, nil, nil
}

type visitorKey struct{}

// Within has the routes that a door calls know that the visitor's proof was verified: it
// is of the request to the door, and of none of theirs.
func (v *Visitor) Within(ctx context.Context) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

func visitorOf(ctx context.Context) *Visitor {
	v, _ := ctx.Value(visitorKey{}).(*Visitor)
	return v
}

// burn uses up a proof in Redis, so that no other instance writes with it. What one
// request to a door writes, it writes with one proof.
func (s *Server) burn(c *call, v *Visitor) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.burned {
		return nil
	}
	err := s.store.BurnProof(c.ctx, c.org, v.Proof.Thumbprint, v.Proof.JTI, oauth.ProofMemory)
	if errors.Is(err, rediskv.ErrReplayed) {
		return oauth.ProofRefused(auth.Refuse(auth.ErrProof, auth.ReasonReplayed))
	}
	v.burned = err == nil
	return err
}

// Challenge is the WWW-Authenticate of a request that is refused a door, and, where its
// proof is, the nonce of the next one in the header of the answer.
func (s *Server) Challenge(w http.ResponseWriter, req *http.Request, e *tollgate.Error) string {
	if errors.Is(e, auth.ErrProof) {
		w.Header().Set("DPoP-Nonce", s.oauth.Nonce())
	}
	return oauth.Challenge(e, "", oauth.Proven(req.Header))
}
