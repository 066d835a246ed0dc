package testkit

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/ledger"
	"tollgate/rediskv/record"
)

// TransactionOf is an entry of an index by the id of a transaction, wherever it stands.
func TransactionOf(t testing.TB, c rediskv.Client, k rediskv.Space, id string) ledger.Indexed {
	t.Helper()
	apart, err := c.Exists(t.Context(), k.Object(id)).Result()
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Indexed{ID: id, Shared: apart == 0}
}

// TransactionField is a field of what is stored of a transaction.
func TransactionField(t testing.TB, c rediskv.Client, k rediskv.Space, of ledger.Indexed, field string) string {
	t.Helper()
	at := of.Place(k)
	names := at.Names([]string{field})
	values, err := c.HMGet(t.Context(), at.Key, names...).Result()
	if err != nil {
		t.Fatal(err)
	}
	return at.Read(values, []string{field})[field]
}

// SetTransaction writes a field of what is stored of a transaction, as a mistake and no
// damage would: what it leaves has no checksum. "" takes it out.
func SetTransaction(t testing.TB, c rediskv.Client, k rediskv.Space, of ledger.Indexed, field, value string) {
	t.Helper()
	at := of.Place(k)
	put := func(name, value string) {
		err := c.HSet(t.Context(), at.Key, name, value).Err()
		if value == "" {
			err = c.HDel(t.Context(), at.Key, name).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !of.Shared {
		put(record.Field, record.Format)
		put(field, value)
		return
	}
	kind := record.KindOf(at.As)
	if at.Name == tollgate.FirstNumber {
		unfollow(t, c, k, at.Key)
	}
	values, err := c.HMGet(t.Context(), at.Key, at.Names(nil)...).Result()
	if err != nil {
		t.Fatal(err)
	}
	shared, _, _ := tollgate.NumberIn(of.ID)
	covered := kind.Unshared(shared, values, new(record.First))
	for _, name := range kind.Scripts {
		delete(covered, name)
	}
	covered[record.Field] = record.Format
	if _, ok := covered[field]; ok {
		if covered[field] = value; value == "" {
			delete(covered, field)
		}
	} else {
		put(of.FieldPrefix()+field, value)
	}
	b, err := json.Marshal(covered, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	put(at.Name, string(b))
	for _, piece := range []string{"+", "++"} {
		put(of.FieldPrefix()+piece, "")
	}
}

// unfollow has the later transactions of a payment stand by themselves, as a mistake in its
// first one is none in them.
func unfollow(t testing.TB, c rediskv.Client, k rediskv.Space, parts string) {
	t.Helper()
	hash, err := c.HGetAll(t.Context(), parts).Result()
	if err != nil {
		t.Fatal(err)
	}
	members, found := ledger.PartsIn(k, parts[strings.LastIndexByte(parts, ':')+1:], hash)
	for i, m := range members {
		at := m.Place(k)
		if !record.IsBehind(hash[at.Name]) {
			continue
		}
		var pairs []any
		for name, value := range found[i] {
			pairs = append(pairs, name, value)
		}
		of, _, _ := tollgate.NumberIn(m.ID)
		if err := c.HSet(t.Context(), parts, record.KindOf(at.As).Share(of, at.Name, pairs, record.Dense, nil)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// DropTransaction takes out all that is stored of a transaction, but for its document.
func DropTransaction(t testing.TB, c rediskv.Client, k rediskv.Space, of ledger.Indexed) {
	t.Helper()
	at := of.Place(k)
	var err error
	if of.Shared {
		err = c.HDel(t.Context(), at.Key, record.KindOf(at.As).SharedNames(at.Name)...).Err()
	} else {
		err = c.Del(t.Context(), at.Key).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}
