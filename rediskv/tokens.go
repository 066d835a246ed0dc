package rediskv

import (
	"context"
	"time"
)

// TokenIssue is a token about to be issued for an assertion.
type TokenIssue struct {
	Caller
	JTI                  string // of the assertion
	AssertionExpires     time.Time
	ClientRevision       int64
	OrganizationRevision int64
}

// IssueToken burns the assertion and records the token in one step, the last
// before it is handed out. ErrReplayed: the assertion was used before;
// ErrStale: client, grant or organization have changed.
func (s *Store) IssueToken(ctx context.Context, t TokenIssue) error {
	k := s.space(t.Organization)
	head, tail, err := s.entry(t.Caller, "token.issue", "succeeded", "", "client", t.Actor.ClientID)
	if err != nil {
		return err
	}
	// Kept a little longer than it is valid, for clocks that differ.
	lifetime := t.AssertionExpires.Sub(s.clock()) + time.Minute
	_, _, err = s.run(ctx, scriptIssueToken,
		[]string{k.object(t.Actor.ClientID), k.object(t.Actor.GrantID), k.organization(), k.assertion(t.Actor.ClientID, t.JTI), k.sequences(), k.audit()},
		[]any{s.Mint(""), t.ClientRevision, t.GrantVersion, t.OrganizationRevision, max(lifetime, time.Minute).Milliseconds(), head, tail})
	return err
}
