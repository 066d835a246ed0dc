package audittree

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
	"tollgate/rediskv/streams"
)

// KeptCheckpoints is how many an organization keeps: with one each minute those of more
// than a day.
const KeptCheckpoints = 2000

// Checkpoint is one as it is listed.
type Checkpoint struct {
	Object    string           `json:"object"` // "audit_checkpoint"
	HistoryID string           `json:"history_id"`
	Number    int64            `json:"number"` // 1, 2, 3 … within the history
	Size      int64            `json:"size"`
	Root      string           `json:"root"` // base64
	KeptFrom  int64            `json:"kept_from"`
	Key       string           `json:"key"`  // verifier key, as signed-note has it
	Note      string           `json:"note"` // what is signed, and the signature
	CreatedAt tollgate.Instant `json:"created_at"`

	Damaged *tollgate.DamagedObject `json:"-"` // what stands in its place
}

// LastCheckpoint is the last one of a history's tree, none where there is no such tree.
func (s *Store) LastCheckpoint(ctx context.Context, c rediskv.Caller, history string) (rows []Checkpoint, err error) {
	defer s.db.CheckGrant(ctx, c, s.db.Space(c.Organization))(&err)
	trees, err := s.AuditTrees(ctx, c.Organization)
	if t := trees.Of(history); t != nil {
		rows = append(rows, t.Last)
	}
	return rows, err
}

// AuditCheckpoints returns one page, the newest first, and the place to go on from; it
// is empty at the end.
func (s *Store) AuditCheckpoints(ctx context.Context, c rediskv.Caller, after string, limit int) (rows []Checkpoint, next string, err error) {
	k := s.db.Space(c.Organization)
	defer s.db.CheckGrant(ctx, c, k)(&err)
	first := "+"
	if after != "" {
		first = streams.Previous(after)
	}
	var found []redis.XMessage
	if err := s.db.TimedInTurn(ctx, c, "audit_checkpoints", func(ctx context.Context) (err error) {
		found, err = s.db.Redis.XRevRangeN(ctx, k.AuditCheckpoints(), first, "-", int64(limit)+1).Result()
		return err
	}); err != nil {
		return nil, "", err
	}
	if len(found) > limit {
		found, next = found[:limit], found[limit-1].ID
	}
	for _, m := range found {
		row := Checkpoint{}
		err := errors.Join(record.CheckRow(k.AuditCheckpoints(), m.Values), record.Decode(rediskv.Text(m, "b"), &row))
		if err != nil {
			damage := tollgate.Damage("audit_checkpoint", "chk_"+strings.ReplaceAll(m.ID, "-", "_"), err)
			row.Damaged = tollgate.DamageOf(s.db.Noticed(ctx, k, damage))
		}
		rows = append(rows, row)
	}
	return rows, next, nil
}
