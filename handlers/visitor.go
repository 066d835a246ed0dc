package handlers

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/oauth"
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

// Present reads who comes through a Door. Redis is not asked. Whether the grant is in
// force and has a scope, each route says that the door calls with the same token.
func (s *Server) Present(req *http.Request) (*Visitor, *tollgate.Error) {
	v, _, refused := s.present(req)
	return v, refused
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
