package audittree

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/script"
)

// Tree is what is sealed of an audit record within one history of its partition.
type Tree struct {
	HistoryID string     `json:"history_id"`
	Origin    string     `json:"origin"`         // its name in checkpoints
	Seam      string     `json:"seam,omitempty"` // leaf 0, where a tree was before: the last checkpoint of that
	After     string     `json:"after"`          // the place in the log behind which its entries begin
	Until     string     `json:"until"`          // the place of the last one
	First     int64      `json:"first"`          // number of the first one
	Size      int64      `json:"size"`           // leaves
	KeptFrom  int64      `json:"kept_from"`      // leaves before may have no entry any more
	Last      Checkpoint `json:"last"`           // its last checkpoint
}

// Trees are those of an organization, the current one last.
type Trees struct {
	List []Tree `json:"trees"`

	text string // as it was read
}

// Beginning is a place in a log before the first entry.
const Beginning = "0-0"

// Last is the current tree, nil while nothing is sealed.
func (t *Trees) Last() *Tree {
	if len(t.List) == 0 {
		return nil
	}
	return &t.List[len(t.List)-1]
}

// Until is the place up to which the log is sealed.
func (t *Trees) Until() string {
	if last := t.Last(); last != nil {
		return last.Until
	}
	return Beginning
}

// Of is the tree of a history, of "" the current one; nil: there is none.
func (t *Trees) Of(history string) *Tree {
	if history == "" {
		return t.Last()
	}
	if i := slices.IndexFunc(t.List, func(one Tree) bool { return one.HistoryID == history }); i >= 0 {
		return &t.List[i]
	}
	return nil
}

// Clone is to be changed and handed to SealAudit.
func (t *Trees) Clone() Trees { return Trees{slices.Clone(t.List), ""} }

// AuditTrees reads the document of an organization.
func (s *Store) AuditTrees(ctx context.Context, org string) (t Trees, err error) {
	k, text := s.db.Space(org), ""
	if err := s.db.Timed(ctx, "audit_trees", func(ctx context.Context) (err error) {
		if text, err = s.db.Redis.Get(ctx, k.AuditTree()).Result(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	}); err != nil {
		return t, err
	}
	t, err = treesOf(k, text)
	return t, s.db.Noticed(ctx, k, err)
}

// treesOf reads a document. Its error is damage.
func treesOf(k rediskv.Space, text string) (t Trees, err error) {
	if text == "" {
		return t, nil
	}
	if err = open(k.AuditTree(), text, &t); err != nil || t.Last() == nil {
		return Trees{text: text}, tollgate.Damage("audit_tree", k.Org, errors.Join(err, errors.New("what is sealed cannot be read")))
	}
	t.text = text
	return t, nil
}

func open(key, text string, into any) error {
	document, err := record.Opened(key, text)
	if err == nil {
		err = json.Unmarshal([]byte(document), into)
	}
	return err
}

// tile is a stored one: its hashes, or, of a full one of level 0, where the entries are in the
// archive of which they are made again.
type tile struct {
	Hashes string `json:"hashes"`          // base64
	First  string `json:"first,omitempty"` // places of the first and the last entry
	Last   string `json:"last,omitempty"`
}

// AuditTile reads a tile: the hashes, one behind the other. One that is not there is
// damage, as it is only read where it must be.
func (s *Store) AuditTile(ctx context.Context, org, history string, level int, index int64) ([]byte, error) {
	k := s.db.Space(org)
	_, stored, hashes, err := s.tile(ctx, k, history, level, index)
	if err == nil && stored.First != "" {
		hashes, err = s.madeAgain(ctx, k, history, index, stored)
	}
	return hashes, err
}

// tile reads what is stored of a tile, and the hashes in that.
func (s *Store) tile(ctx context.Context, k rediskv.Space, history string, level int, index int64) (text string, stored tile, hashes []byte, err error) {
	key := k.AuditTile(history, level, index)
	if err := s.db.Timed(ctx, "audit_tile", func(ctx context.Context) (err error) {
		if text, err = s.db.Redis.Get(ctx, key).Result(); errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	}); err != nil {
		return "", stored, nil, err
	}
	if err = open(key, text, &stored); err == nil {
		if hashes, err = base64.StdEncoding.DecodeString(stored.Hashes); err == nil {
			return text, stored, hashes, nil
		}
	}
	return "", stored, nil, s.damaged(ctx, k, level, index, err)
}

func (s *Store) damaged(ctx context.Context, k rediskv.Space, level int, index int64, err error) error {
	return s.db.Noticed(ctx, k, tollgate.Damage("audit_tree", k.Org, fmt.Errorf("tile %d of level %d: %w", index, level, err)))
}

// Tile is one of the current tree that has changed.
type Tile struct {
	Level  int
	Index  int64
	Hashes []byte
}

type (
	sealAuditKeys struct{ Tree, Checkpoints string }
	sealAuditArgs struct {
		Before, After, Checkpoint, CheckpointEnvelope string
		Kept                                          int
	}
)

var scriptSealAudit = script.New[sealAuditKeys, sealAuditArgs](lua, "seal_audit")

// SealAudit puts the next document of an organization in the place of the one that was
// read, with the tiles that have changed and the last checkpoint, within the history of
// ctx (history.Within). rediskv.ErrConflict: another sealer was faster.
func (s *Store) SealAudit(ctx context.Context, org string, before, after Trees, changed []Tile) error {
	k := s.db.Space(org)
	document, err := record.Enveloped(k.AuditTree(), after)
	if err != nil {
		return err
	}
	checkpoint, err := json.Marshal(after.Last().Last, json.Deterministic(true))
	if err != nil {
		return err
	}
	inv := scriptSealAudit.With(sealAuditKeys{k.AuditTree(), k.AuditCheckpoints()}, sealAuditArgs{
		before.text, string(document), string(checkpoint), record.Row(k.AuditCheckpoints(), string(checkpoint)), KeptCheckpoints,
	})
	for _, one := range changed {
		key := k.AuditTile(after.Last().HistoryID, one.Level, one.Index)
		text, err := record.Enveloped(key, tile{Hashes: base64.StdEncoding.EncodeToString(one.Hashes)})
		if err != nil {
			return err
		}
		inv.Keys, inv.Args = append(inv.Keys, key), append(inv.Args, string(text))
	}
	_, _, err = s.db.Run(ctx, inv)
	return err
}
