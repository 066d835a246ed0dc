// Package sealing makes every entry of an audit record a leaf of a Merkle tree, and signs
// what the tree is. It is done behind the requests: nothing waits for it. Any number of
// workers may seal; the store lets one of them advance a tree.
package sealing

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/audit"
	"tollgate/handlers/keyring"
	"tollgate/handlers/tlog"
	"tollgate/handlers/tlog/checkpoint"
	"tollgate/handlers/worker/loop"
	"tollgate/rediskv"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/history"
)

// Every is between looks at a partition: an entry is sealed within a minute.
const Every = 30 * time.Second

const (
	// page is how many entries are sealed in one step.
	page = 2048
	// tries bounds how often a step begins anew because another sealer was faster.
	tries = 5
)

// Config is what a Sealer works with.
type Config struct {
	loop.Common
	Keyring *keyring.Keyring
	Witness *Witness // nil: nobody is told
}

// Sealer seals the audit records of all organizations.
type Sealer struct {
	Config
	known sync.Map // by organization: the Tree that this process sealed last
}

// New makes one that does not run yet.
func New(c Config) *Sealer { return &Sealer{Config: c} }

// signer is who signs in one round.
type signer struct {
	issuer string
	key    ed25519.PrivateKey
}

// Partition seals what is pending in a partition, and returns how many entries that was.
// Before an instance of the API has said what the issuer is, nothing is sealed.
func (s *Sealer) Partition(ctx context.Context, partition int) (sealed int, err error) {
	pending, err := s.Store.PendingAudits(ctx, partition)
	if err != nil || len(pending) == 0 {
		s.Observer.AuditBehind(partition, 0)
		return 0, err
	}
	by, ok, err := s.signer(ctx)
	behind := time.Duration(0)
	for _, org := range pending {
		if ok {
			n, failed := s.organization(ctx, org, by)
			sealed += n
			if err = cmp.Or(err, failed); failed == nil {
				continue
			}
		}
		behind = max(behind, s.behind(ctx, org))
	}
	s.Observer.AuditBehind(partition, behind)
	return sealed, err
}

func (s *Sealer) signer(ctx context.Context) (by signer, ok bool, err error) {
	by.issuer, by.key, ok, err = s.Keyring.AuditSigner(ctx)
	if err != nil {
		err = fmt.Errorf("the key that seals audit records: %w", err)
	}
	return by, ok, err
}

// behind is how long the oldest entry that is not sealed has been waiting. Where the tree
// is damaged, that is the oldest of all.
func (s *Sealer) behind(ctx context.Context, org string) time.Duration {
	trees, _ := s.Store.AuditTrees(ctx, org)
	oldest, err := s.Store.Unsealed(ctx, org, trees.Until(), 1)
	if err != nil || len(oldest) == 0 {
		return 0
	}
	return max(0, s.Wall().Sub(audittree.PlaceTime(oldest[0].ID).Time()))
}

// organization seals all that an organization has.
func (s *Sealer) organization(ctx context.Context, org string, by signer) (sealed int, err error) {
	conflicts := 0
	for more := true; more; {
		var n int
		n, err = s.step(ctx, org, by)
		switch {
		case err == nil:
			sealed, more = sealed+n, n == page
		case (errors.Is(err, rediskv.ErrConflict) || errors.Is(err, rediskv.ErrStale)) && conflicts < tries:
			conflicts++
		default:
			return sealed, fmt.Errorf("the audit record of %s: %w", org, err)
		}
	}
	return sealed, nil
}

// step seals the next page of entries.
func (s *Sealer) step(ctx context.Context, org string, by signer) (int, error) {
	now, err := s.Store.HistoryFor(ctx, org)
	if err == nil && !now.Open {
		err = history.Lost()
	}
	if err != nil {
		return 0, err
	}
	before, err := s.Store.AuditTrees(ctx, org)
	if err != nil {
		return 0, err
	}
	entries, err := s.Store.Unsealed(ctx, org, before.Until(), page)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	after := before.Clone()
	leaves := s.current(&after, org, now.ID, by.issuer, entries[0])
	t := after.Last()
	tree := audit.Stored(ctx, s.Store, org, t)
	for _, m := range entries {
		leaves = append(leaves, tlog.LeafHash(audittree.Text(m)))
	}
	if err := tree.Append(leaves...); err != nil {
		return 0, err
	}
	t.Size, t.Until = tree.Size, entries[len(entries)-1].ID
	return len(entries), s.seal(history.Within(ctx, now.ID), org, before, after, tree, by)
}

// current makes sure that the last tree is that of a history. A new one begins with the
// last checkpoint of the one before, which is its first leaf.
func (s *Sealer) current(trees *audittree.Trees, org, history, issuer string, first audittree.Entry) (leaves []tlog.Hash) {
	last := trees.Last()
	if last != nil && last.HistoryID == history {
		return nil
	}
	next := audittree.Tree{
		HistoryID: history, Origin: checkpoint.Origin(issuer, org, history), After: trees.Until(), First: numberOf(first),
	}
	if last != nil {
		next.Seam = last.Last.Note
		// Redis may have lost checkpoints that this process has made.
		if known, ok := s.known.Load(org); ok && known.(audittree.Tree).HistoryID == last.HistoryID && known.(audittree.Tree).Size > last.Size {
			next.Seam = known.(audittree.Tree).Last.Note
		}
		leaves = append(leaves, tlog.LeafHash(next.Seam))
	}
	trees.List = append(trees.List, next)
	return leaves
}

// numberOf is the number in an entry; 0 where it cannot be read.
func numberOf(m audittree.Entry) int64 {
	var e tollgate.AuditEntry
	_ = json.Unmarshal([]byte(audittree.Text(m)), &e)
	return e.Seq
}

// seal signs the current tree, writes it and tells of it.
func (s *Sealer) seal(ctx context.Context, org string, before, after audittree.Trees, tree *tlog.Tree, by signer) error {
	t := after.Last()
	if err := s.sign(t, tree, by); err != nil {
		return err
	}
	var changed []audittree.Tile
	for tile, hashes := range tree.Changed() {
		changed = append(changed, audittree.Tile{Level: tile.Level, Index: tile.Index, Hashes: tlog.Join(hashes)})
	}
	if err := s.Store.SealAudit(ctx, org, before, after, changed); err != nil {
		return err
	}
	s.known.Store(org, *t)
	s.Log.Info("audit checkpoint", "organization", org, "size", t.Size, "checkpoint", t.Last.Note)
	s.Witness.Tell(org, t.Last.Note)
	return nil
}

// sign gives a tree its next checkpoint.
func (s *Sealer) sign(t *audittree.Tree, tree *tlog.Tree, by signer) error {
	root, err := tree.Root()
	if err != nil {
		return err
	}
	c := checkpoint.Checkpoint{Origin: t.Origin, Size: t.Size, Root: root, KeptFrom: t.KeptFrom, SealedAt: tollgate.At(s.Clock())}
	note, err := c.Sign(by.key)
	if err != nil {
		return err
	}
	public, _ := by.key.Public().(ed25519.PublicKey)
	vkey, err := checkpoint.VerifierKey(t.Origin, public)
	t.Last = audittree.Checkpoint{
		Object: "audit_checkpoint", HistoryID: t.HistoryID, Number: t.Last.Number + 1, Size: t.Size, Root: base64.StdEncoding.EncodeToString(root[:]),
		KeptFrom: t.KeptFrom, Key: vkey, Note: note, CreatedAt: c.SealedAt,
	}
	return err
}
