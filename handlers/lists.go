package handlers

import (
	"context"
	"net/http"

	"tollgate"
	"tollgate/handlers/audit"
	"tollgate/handlers/input"
	"tollgate/rediskv"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/ledger"
)

// pageParameters are those of a listing that has no others.
var pageParameters = []string{"limit", "cursor"}

// readPage reads what a listing is asked for, of this organization.
func readPage[P any](s *Server, c *call, order string, read func(*input.Query)) (input.Page[P], error) {
	p, err := input.ReadPage[P](s.cursors, c.request.URL.Path, c.org, c.query, order, read)
	if err == nil {
		_, given := c.query["cursor"]
		p.History, err = s.checkCursor(c, p.History, given)
	}
	return p, err
}

// listBy answers a listing whose rows are found by a text; next is empty behind the
// last. read reads its filters, nil for none.
func listBy[T any](s *Server, c *call, order string, read func(*input.Query), find func(after string, limit int) (rows []T, next string, err error)) (*answer, error) {
	p, err := readPage[string](s, c, order, read)
	if err != nil {
		return nil, err
	}
	rows, next, err := find(p.Position, p.Limit)
	if err != nil {
		return nil, err
	}
	return pageOf(p, rows, next != "", next)
}

// pageOf is the answer with a page; next is where the following one begins.
func pageOf[T, P any](p input.Page[P], rows []T, more bool, next P) (*answer, error) {
	body := tollgate.List[tollgate.Listed[T]]{Object: "list", Data: make([]tollgate.Listed[T], len(rows)), HasMore: more}
	for i := range rows {
		body.Data[i] = tollgate.Listed[T]{Value: rows[i], Damage: damageOf(&rows[i])}
	}
	if more {
		cursor, err := p.Next(next)
		if err != nil {
			return nil, err
		}
		body.NextCursor = &cursor
	}
	return object(body)
}

// firstOf are the ids of a page, and where the next one begins; empty at the end.
func firstOf(ids []string, limit int) (page []string, next string) {
	if len(ids) <= limit {
		return ids, ""
	}
	return ids[:limit], ids[limit-1]
}

// damageOf is what stands in the place of a row that is stored and cannot be
// read; nil for any other.
func damageOf(row any) *tollgate.DamagedObject {
	d := &tollgate.DamagedObject{Damaged: true}
	damaged := false
	switch r := row.(type) {
	case *tollgate.Transaction:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Payment:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Refund:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.PayoutObject:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Export:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Delivery:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Rule:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.ActivationAnswer:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Shadow:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *perimeterRow:
		d.Object, d.ID, damaged = r.Object, r.ID, r.damage != nil
	case *audit.Object:
		return r.Damage
	case *audittree.Checkpoint:
		return r.Damaged
	case *tollgate.ClientAnswer:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.Grant:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	case *tollgate.WebhookEndpoint:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	}
	if !damaged {
		return nil
	}
	return d
}

// search answers a listing of what transactions are made of, the newest first.
func search[T any](s *Server, c *call, read func(*input.Query) ledger.TransactionQuery,
	find func(context.Context, rediskv.Caller, ledger.TransactionQuery) (rows []T, next int64, more bool, err error),
) (*answer, error) {
	var q ledger.TransactionQuery
	p, err := readPage[int64](s, c, "desc", func(r *input.Query) { q = read(r) })
	if err != nil {
		return nil, err
	}
	if q.Accounts, err = c.covered(q.Accounts); err != nil {
		return nil, err
	}
	q.Descending, q.After, q.Limit = p.Order == "desc", p.Position, p.Limit
	rows, next, more, err := find(c.ctx, c.caller(http.StatusOK), q)
	if err != nil {
		return nil, err
	}
	return pageOf(p, rows, more, next)
}
