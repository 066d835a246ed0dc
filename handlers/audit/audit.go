// Package audit shows an organization's audit record: its entries, the Merkle tree over
// them, and the proof that one is in it.
package audit

import (
	"context"
	"strings"

	"tollgate"
	"tollgate/handlers/tlog"
	"tollgate/rediskv"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/store"
)

// Object is an entry as it is listed: with the members that each object has.
type Object struct {
	Object    string                  `json:"object"` // "audit_entry"
	ID        string                  `json:"id"`
	CreatedAt tollgate.Instant        `json:"created_at"` // the entry's time
	Seq       int64                   `json:"seq"`
	Time      tollgate.Instant        `json:"time"`
	Type      string                  `json:"type"`
	Outcome   string                  `json:"outcome"`
	Reason    *string                 `json:"reason"`
	Actor     tollgate.Actor          `json:"actor"`
	Request   tollgate.AuditRequest   `json:"request"`
	Target    tollgate.AuditTarget    `json:"target"`
	Damage    *tollgate.DamagedObject `json:"-"` // stands in its place
}

// Objects are rows of the record as they are listed.
func Objects(rows []eventlog.AuditRow) []Object {
	list := make([]Object, len(rows))
	for i, r := range rows {
		e := r.AuditEntry
		if e == nil {
			list[i] = Object{Damage: r.Damaged}
			continue
		}
		list[i] = Object{
			Object: "audit_entry", ID: e.ID, CreatedAt: e.Time, Seq: e.Seq, Time: e.Time,
			Type: e.Type, Outcome: e.Outcome, Actor: e.Actor, Request: e.Request, Target: e.Target,
		}
		if e.Reason != "" {
			list[i].Reason = &e.Reason
		}
	}
	return list
}

// Proof proves that an entry is in the record. The members from history_id on are null
// while it is not sealed, and there are no hashes.
type Proof struct {
	Object    string   `json:"object"` // "audit_proof"
	ID        string   `json:"id"`     // of the entry
	Entry     string   `json:"entry"`  // its exact text, of which the leaf's hash is made
	HistoryID *string  `json:"history_id"`
	Index     *int64   `json:"index"`
	Size      *int64   `json:"size"`   // of the tree in the checkpoint
	Hashes    []string `json:"hashes"` // from the leaf up to the root, base64
	Note      *string  `json:"note"`   // the checkpoint
	Key       *string  `json:"key"`    // verifier key, as signed-note has it
}

// Prove finds an entry by its id and proves it within the last checkpoint of its tree.
func Prove(ctx context.Context, s *store.Store, c rediskv.Caller, id string) (p Proof, err error) {
	if !strings.HasPrefix(id, tollgate.PrefixAudit) {
		return p, tollgate.NotFound()
	}
	entry, err := s.AuditEntry(ctx, c, id)
	if err != nil {
		return p, err
	}
	p = Proof{Object: "audit_proof", ID: id, Entry: audittree.Text(entry.XMessage), Hashes: []string{}}
	trees, err := s.AuditTrees(ctx, c.Organization)
	if err != nil {
		return p, err
	}
	for i := range trees.List {
		t := &trees.List[i]
		if !t.Holds(entry.XMessage) {
			continue
		}
		tree := Stored(ctx, s, c.Organization, t)
		index, err := tree.IndexOf(tlog.LeafHash(p.Entry), t.Likely(entry.Number))
		if err == nil && index < 0 {
			err = tollgate.Damage("audit_entry", id, errChanged)
		}
		if err != nil {
			return p, err
		}
		hashes, err := tree.Inclusion(index)
		p.HistoryID, p.Index, p.Size, p.Hashes = &t.HistoryID, &index, &t.Size, base64Of(hashes)
		p.Note, p.Key = &t.Last.Note, &t.Last.Key
		return p, err
	}
	return p, nil
}
