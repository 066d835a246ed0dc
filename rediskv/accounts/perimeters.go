package accounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/record"
)

// Perimeters are the versions of an organization's perimeters, and by account
// the one that is in force there.
type Perimeters struct {
	Versions []tollgate.PerimeterRef // by id and version
	Active   map[string]tollgate.PerimeterRef
}

// Perimeters lists the versions that provisioning has named since versions are
// noted, and those that are in force.
func (s *Store) Perimeters(ctx context.Context, c rediskv.Caller) (p Perimeters, err error) {
	k := s.db.Space(c.Organization)
	p.Active = map[string]tollgate.PerimeterRef{}
	defer s.db.CheckGrant(ctx, c, k)(&err)
	var accounts, noted []string
	if err := s.db.Timed(ctx, "read_perimeters", func(ctx context.Context) error {
		pipe := s.db.Redis.Pipeline()
		organization, versions := pipe.HGet(ctx, k.Organization(), "accounts"), pipe.SMembers(ctx, k.Perimeters())
		if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		accounts, noted = strings.Fields(organization.Val()), versions.Val()
		return nil
	}); err != nil {
		return p, err
	}
	all := map[tollgate.PerimeterRef]bool{}
	for _, name := range noted {
		id, text, _ := strings.Cut(name, "@")
		if version, err := strconv.ParseInt(text, 10, 64); err == nil {
			all[tollgate.PerimeterRef{ID: id, Version: version}] = true
		}
	}
	if err := s.active(ctx, k, accounts, p.Active); err != nil {
		return p, err
	}
	for _, ref := range p.Active {
		all[ref] = true
	}
	p.Versions = slices.Collect(maps.Keys(all))
	sort.Slice(p.Versions, func(i, j int) bool {
		a, b := p.Versions[i], p.Versions[j]
		return a.ID < b.ID || a.ID == b.ID && a.Version < b.Version
	})
	return p, nil
}

// active reads which perimeters accounts name.
func (s *Store) active(ctx context.Context, k rediskv.Space, accounts []string, into map[string]tollgate.PerimeterRef) error {
	return rediskv.EachHash(ctx, s.db, rediskv.Caller{}, "read_perimeters", accounts, k.Object, func(id string, f rediskv.Fields) {
		var a struct {
			Perimeter tollgate.PerimeterRef `json:"perimeter"`
		}
		if f.Document(&a) == nil && a.Perimeter.ID != "" { // one that cannot be read takes no other with it
			into[id] = a.Perimeter
		}
	}, "json", rediskv.EnvelopeField)
}

// StoredPerimeter is a version of a perimeter as it is stored: nothing of one
// that is not there, Damage of one that cannot be read.
type StoredPerimeter struct {
	*tollgate.PerimeterDocument
	Damage error
}

// PerimeterDocuments reads versions, many in one round trip.
func (s *Store) PerimeterDocuments(ctx context.Context, org string, refs []tollgate.PerimeterRef) ([]StoredPerimeter, error) {
	k := s.db.Space(org)
	keys := make([]string, len(refs))
	for i, ref := range refs {
		keys[i] = k.Version(ref.ID, ref.Version)
	}
	texts, err := s.db.ReadStrings(ctx, "read_version", keys)
	if err != nil {
		return nil, err
	}
	found := make([]StoredPerimeter, len(refs))
	for i, ref := range refs {
		if !texts[i].There {
			continue
		}
		document, err := new(tollgate.PerimeterDocument), texts[i].Err
		if err == nil {
			err = record.Decode(texts[i].Text, document)
		}
		if err == nil && (document.ID != ref.ID || document.Version != ref.Version || len(document.Constraints) == 0) {
			err = errors.New("it is another one")
		}
		if err != nil {
			found[i].Damage = s.DamagedPerimeter(ctx, org, ref, err)
			continue
		}
		found[i].PerimeterDocument = document
	}
	return found, nil
}

// DamagedPerimeter is the damage of a perimeter of which a version cannot be
// read, or not be understood.
func (s *Store) DamagedPerimeter(ctx context.Context, org string, ref tollgate.PerimeterRef, cause error) error {
	return s.db.Damaged(ctx, s.db.Space(org), "perimeter", ref.ID, fmt.Errorf("perimeter %s@%d: %w", ref.ID, ref.Version, cause))
}

// NotePerimeters keeps the names of versions, id@version, so that they can be
// listed. It comes before they are written: a name without a version leads nowhere.
func (s *Store) NotePerimeters(ctx context.Context, k rediskv.Space, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return s.db.Timed(ctx, "note_perimeters", func(ctx context.Context) error {
		return s.db.Redis.SAdd(ctx, k.Perimeters(), rediskv.Anys(names)...).Err()
	})
}
