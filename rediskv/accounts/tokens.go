package accounts

import (
	"context"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/gcra"
	"tollgate/rediskv/script"
)

// TokenIssue is a token about to be issued for an assertion.
type TokenIssue struct {
	rediskv.Caller
	JTI                  string // of the assertion
	AssertionExpires     time.Time
	ClientRevision       int64
	OrganizationRevision int64
}

// IssueToken burns the assertion and records the token in one step, the last
// before it is handed out. ErrReplayed: the assertion was used before;
// ErrStale: client, grant or organization have changed.
func (s *Store) IssueToken(ctx context.Context, t TokenIssue) error {
	k := s.db.Space(t.Organization)
	entry, err := s.db.Entry(t.Caller, "token.issue", "succeeded", "", "client", t.Actor.ClientID)
	if err != nil {
		return err
	}
	// Kept a little longer than it is valid, for clocks that differ.
	lifetime := t.AssertionExpires.Sub(s.db.Clock()) + time.Minute
	rate, limit := t.Counted(k)
	_, _, err = s.db.Run(ctx, scriptIssueToken.With(issueTokenKeys{
		Client: k.Object(t.Actor.ClientID), Grant: k.Object(t.Actor.GrantID), Organization: k.Organization(),
		Rate: rate, Assertion: k.Assertion(t.Actor.ClientID, t.JTI), Sequences: k.Sequences(), Audit: k.Audit(),
	}, issueTokenArgs{
		Operation: s.db.NewID(""), ClientRevision: t.ClientRevision, GrantVersion: t.GrantVersion, OrganizationRevision: t.OrganizationRevision,
		BurntLifetime: max(lifetime, time.Minute).Milliseconds(), RateLimit: limit, AuditArgs: entry,
	}))
	return err
}

type issueTokenKeys struct{ Client, Grant, Organization, Rate, Assertion, Sequences, Audit string }

type issueTokenArgs struct {
	Operation                                                         string
	ClientRevision, GrantVersion, OrganizationRevision, BurntLifetime int64
	RateLimit                                                         gcra.Argument
	rediskv.AuditArgs
}

var scriptIssueToken = script.New[issueTokenKeys, issueTokenArgs](lua, "issue_token")

// ListedGrants reads the list itself. A release that kept none left no list.
func (s *Store) ListedGrants(ctx context.Context, k rediskv.Space) (list tollgate.GrantList, err error) {
	err = s.db.Timed(ctx, "read_grants", func(ctx context.Context) (err error) {
		list.Clients, err = s.db.Redis.HGetAll(ctx, k.Grants()).Result()
		return err
	})
	list.Revision = rediskv.Fields(list.Clients).Int("v")
	delete(list.Clients, "v")
	return list, err
}
