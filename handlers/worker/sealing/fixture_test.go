package sealing_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers/keyring"
	"tollgate/handlers/secret"
	"tollgate/handlers/tlog/auditor"
	"tollgate/handlers/tlog/checkpoint"
	"tollgate/handlers/worker/loop"
	"tollgate/handlers/worker/sealing"
	"tollgate/rediskv"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// record is an organization with an audit record, and who seals it.
type record struct {
	*testkit.Shop
	testing.TB
	ring *keyring.Keyring
	raw  rediskv.Client
	own  *sealing.Sealer
}

func newRecord(t *testing.T) *record {
	t.Helper()
	server := redistest.Fresh(t)
	r := &record{Shop: testkit.NewShop(t, rediskv.Options{URL: server.URL}, testkit.NewClock(), func(o *tollgate.Config) {
		o.Clients, o.Grants, o.RuleSets[0].Rules = nil, nil, nil
	}), TB: t}
	vault, err := secret.NewVault([]byte(strings.Repeat("k", secret.Size)))
	must(t, err)
	r.ring, err = keyring.New(keyring.Config{Store: r.Store, Vault: vault, Entropy: rand.Reader, Clock: r.Clock.Now})
	must(t, err)
	r.raw = r.Redis
	r.own = r.sealer()
	return r
}

// sealer is another one of the same record.
func (r *record) sealer() *sealing.Sealer {
	return sealing.New(sealing.Config{
		Common:  loop.Common{Store: r.Store, Clock: r.Clock.Now, Wall: r.Clock.Now, Log: slog.New(slog.DiscardHandler), Observer: loop.Unobserved{}},
		Keyring: r.ring,
	})
}

func (r *record) space() rediskv.Space { return r.Space(r.Caller.Organization) }

// serve is what an instance of the API does.
func (r *record) serve() {
	r.Helper()
	must(r, r.ring.RecordIssuer(r.Context(), "https://pay.example"))
}

// write adds entries to the record.
func (r *record) write(count int) {
	r.Helper()
	for range count {
		must(r, r.Audit(r.Context(), r.Caller, tollgate.AuditEntry{Type: "payment.create", Outcome: "refused", Reason: "any", Target: tollgate.AuditTarget{Type: "payment", ID: "pay_1"}}))
	}
}

// seal seals all that there is.
func (r *record) seal() int {
	r.Helper()
	n, err := r.own.Partition(r.Context(), r.space().Partition)
	must(r, err)
	return n
}

func (r *record) last() audittree.Tree {
	r.Helper()
	trees, err := r.AuditTrees(r.Context(), r.Caller.Organization)
	must(r, err)
	if trees.Last() == nil {
		r.Fatal("nothing is sealed")
	}
	return *trees.Last()
}

func signed(row audittree.Checkpoint) auditor.Signed {
	return auditor.Signed{HistoryID: row.HistoryID, Number: row.Number, Key: row.Key, Note: row.Note}
}

// source reads the record as the API does, in pages.
func (r *record) source() auditor.Source {
	return auditor.Source{
		Latest: func(ctx context.Context, history string) (*auditor.Signed, error) {
			rows, err := r.LastCheckpoint(ctx, r.Caller, history)
			if err != nil || len(rows) == 0 {
				return nil, err
			}
			one := signed(rows[0])
			return &one, nil
		},
		Checkpoints: func(ctx context.Context) (all []auditor.Signed, err error) {
			for after := ""; ; {
				rows, next, err := r.AuditCheckpoints(ctx, r.Caller, after, 7)
				if err != nil {
					return nil, err
				}
				for _, row := range rows {
					all = append(all, signed(row))
				}
				if after = next; next == "" {
					return all, nil
				}
			}
		},
		Rows: func(ctx context.Context, history string, each func(int64, *string, *string) error) error {
			for after := ""; ; {
				rows, next, err := r.AuditLeaves(ctx, r.Caller, history, after, 100)
				if err != nil {
					return err
				}
				for _, row := range rows {
					if err := each(row.Index, row.Hash, row.Entry); err != nil {
						return err
					}
				}
				if after = next; next == "" {
					return nil
				}
			}
		},
	}
}

func (r *record) verify(o auditor.Options) auditor.Report {
	r.Helper()
	report, err := auditor.Verify(r.Context(), r.source(), o)
	must(r, err)
	return report
}

// green verifies that nothing is wrong.
func (r *record) green(earlier ...string) auditor.Report {
	r.Helper()
	report := r.verify(auditor.Options{Earlier: earlier})
	for _, f := range report.Findings {
		r.Errorf("found: %s", f)
	}
	return report
}

// key is the public one that signs now.
func (r *record) key() ed25519.PublicKey {
	r.Helper()
	k, err := checkpoint.PublicKey(r.last().Last.Key)
	must(r, err)
	return k
}

// oldest and newest are when the first and the last entry were written.
func (r *record) oldest() tollgate.Instant {
	r.Helper()
	found, err := r.raw.XRangeN(r.Context(), r.space().Audit(), "-", "+", 1).Result()
	must(r, err)
	return audittree.PlaceTime(found[0].ID)
}

func (r *record) newest() tollgate.Instant {
	r.Helper()
	found, err := r.raw.XRevRangeN(r.Context(), r.space().Audit(), "+", "-", 1).Result()
	must(r, err)
	return audittree.PlaceTime(found[0].ID)
}
