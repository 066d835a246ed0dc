package rediskv

import (
	"context"
	"time"
	"tollgate"
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
	entry, err := s.entry(t.Caller, "token.issue", "succeeded", "", "client", t.Actor.ClientID)
	if err != nil {
		return err
	}
	// Kept a little longer than it is valid, for clocks that differ.
	lifetime := t.AssertionExpires.Sub(s.clock()) + time.Minute
	_, _, err = s.run(ctx, scriptIssueToken.with(issueTokenKeys{
		Client: k.object(t.Actor.ClientID), Grant: k.object(t.Actor.GrantID), Organization: k.organization(),
		Assertion: k.assertion(t.Actor.ClientID, t.JTI), Sequences: k.sequences(), Audit: k.audit(),
	}, issueTokenArgs{
		Operation: s.Mint(""), ClientRevision: t.ClientRevision, GrantVersion: t.GrantVersion, OrganizationRevision: t.OrganizationRevision,
		BurntLifetime: max(lifetime, time.Minute).Milliseconds(), auditArgs: entry,
	}))
	return err
}

type issueTokenKeys struct{ Client, Grant, Organization, Assertion, Sequences, Audit string }

type issueTokenArgs struct {
	Operation                                                         string
	ClientRevision, GrantVersion, OrganizationRevision, BurntLifetime int64
	auditArgs
}

var scriptIssueToken = newScript[issueTokenKeys, issueTokenArgs](lua, "issue_token")

// listedGrants reads the list itself. A release that kept none left no list.
func (s *Store) listedGrants(ctx context.Context, k space) (list tollgate.GrantList, err error) {
	err = s.timed(ctx, "read_grants", func(ctx context.Context) (err error) {
		list.Clients, err = s.client.HGetAll(ctx, k.grants()).Result()
		return err
	})
	list.Revision = fields(list.Clients).int("v")
	delete(list.Clients, "v")
	return list, err
}
