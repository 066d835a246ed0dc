package accounts

import (
	"context"
	"time"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/script"
)

// mostRevoked bounds the tokens of a grant that are revoked one by one and have not
// expired.
const mostRevoked = 1000

// AssertionUse is what a client's assertion is about to be used up for. Where the
// caller names a grant, and a token, both must still mean something.
type AssertionUse struct {
	rediskv.Caller
	JTI                  string    // of the assertion
	Expires              time.Time // of the assertion
	ClientRevision       int64
	OrganizationRevision int64
	Now                  time.Time // real time, by which assertions and tokens live: a sandbox's is ahead
}

// UseAssertion burns the assertion and records what for in one step, the last before
// the client is answered. ErrReplayed: the assertion was used before; ErrStale: client,
// grant or organization have changed.
func (s *Store) UseAssertion(ctx context.Context, u AssertionUse, entry string, target tollgate.AuditTarget) error {
	keys, args, err := s.use(u, entry, target)
	if err == nil {
		_, _, err = s.db.Run(ctx, scriptUseAssertion.With(keys, args))
	}
	return err
}

// RevokeToken is UseAssertion, and revokes a token of the caller's grant until it has
// expired. A token that has ended already stays so.
func (s *Store) RevokeToken(ctx context.Context, u AssertionUse, token string, expires time.Time) error {
	keys, args, err := s.use(u, "token.revoke", tollgate.AuditTarget{Type: "token", ID: token})
	if err != nil {
		return err
	}
	k := s.db.Space(u.Organization)
	_, _, err = s.db.Run(ctx, scriptRevokeToken.With(revokeTokenKeys{keys, rediskv.ChangesKey(k.Partition)}, revokeTokenArgs{
		useArgs: args, Token: token, KeptUntil: expires.Add(time.Minute).Unix(), Now: u.Now.Unix(), Most: mostRevoked,
		Channel: rediskv.ConfigChannel, OrganizationID: u.Organization,
	}))
	s.Refresh(u.Organization)
	return err
}

func (s *Store) use(u AssertionUse, entry string, target tollgate.AuditTarget) (keys useKeys, args useArgs, err error) {
	k := s.db.Space(u.Organization)
	keys = useKeys{
		Client: k.Object(u.Actor.ClientID), Organization: k.Organization(),
		Assertion: k.Assertion(u.Actor.ClientID, u.JTI), Sequences: k.Sequences(), Audit: k.Audit(),
	}
	// Kept a little longer than it is valid, for clocks that differ.
	lifetime := u.Expires.Sub(u.Now) + time.Minute
	args = useArgs{
		Operation: s.db.NewID(""), ClientRevision: u.ClientRevision, OrganizationRevision: u.OrganizationRevision,
		BurntLifetime: max(lifetime, time.Minute).Milliseconds(),
	}
	keys.GrantKeys, args.GrantArgs = u.Grant(k)
	args.AuditArgs, err = s.db.Entry(u.Caller, entry, "succeeded", "", target.Type, target.ID)
	return keys, args, err
}

type useKeys struct {
	rediskv.GrantKeys
	Client, Organization, Assertion, Sequences, Audit string
}

type useArgs struct {
	rediskv.GrantArgs
	Operation                                           string
	ClientRevision, OrganizationRevision, BurntLifetime int64
	rediskv.AuditArgs
}

type revokeTokenKeys struct {
	useKeys
	Changes string
}

type revokeTokenArgs struct {
	useArgs
	Token                   string
	KeptUntil, Now, Most    int64
	Channel, OrganizationID string
}

// BurnProof uses up a proof of possession, by the thumbprint of its key and its jti, for
// as long as it could be used again. ErrReplayed: it was used before.
func (s *Store) BurnProof(ctx context.Context, org, thumbprint, jti string, lifetime time.Duration) error {
	_, _, err := s.db.Run(ctx, scriptBurnProof.With(
		burnProofKeys{s.db.Space(org).Assertion(thumbprint, jti)}, burnProofArgs{s.db.NewID(""), lifetime.Milliseconds()},
	))
	return err
}

type burnProofKeys struct{ Proof string }

type burnProofArgs struct {
	Operation string
	Lifetime  int64
}

var (
	scriptUseAssertion = script.New[useKeys, useArgs](lua, "use_assertion")
	scriptRevokeToken  = script.New[revokeTokenKeys, revokeTokenArgs](lua, "revoke_token")
	scriptBurnProof    = script.New[burnProofKeys, burnProofArgs](lua, "burn_proof")
)

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
