package handlers

import (
	"tollgate"
	"tollgate/handlers/input"
)

// pageParameters are those of a listing that has no others.
var pageParameters = []string{"limit", "cursor"}

// readPage reads what a listing is asked for, of this organization.
func readPage[P any](s *Server, c *call, order string, read func(*input.Query)) (input.Page[P], error) {
	return input.ReadPage[P](s.cursors, c.request.URL.Path, c.org, c.query, order, read)
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
	case *tollgate.WebhookEndpoint:
		d.Object, d.ID, damaged = r.Object, r.ID, r.Damaged
	}
	if !damaged {
		return nil
	}
	return d
}
