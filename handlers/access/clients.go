// Package access knows what requests say of clients and grants, and how a client is
// answered.
package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tollgate"
	"tollgate/handlers/auth"
	"tollgate/handlers/input"
)

// ClientRequest is the body of POST /v1/clients. Its JSON is what the Idempotency-Key
// stands for, as it is for all of access.
type ClientRequest struct {
	Name string           `json:"name"`
	Keys []jsontext.Value `json:"keys"`

	DPoPBound bool `json:"dpop_bound_access_tokens,omitzero"`
}

const dpopBound = "dpop_bound_access_tokens" // RFC 9449 §5.2

// ParseClient reads it.
func ParseClient(f *input.Fields) (r ClientRequest) {
	r.Name, r.DPoPBound = clientName(f, true), f.Flag(dpopBound, false)
	list, ok := f.Value("keys", false, "a list of public JWKs", '[')
	var keys []jsontext.Value
	if !ok || json.Unmarshal(list, &keys) != nil {
		return r
	}
	if len(keys) > tollgate.MaxClientKeys {
		f.Wrong("keys", fmt.Sprintf("has at most %d elements", tollgate.MaxClientKeys))
		return r
	}
	ids := map[string]bool{}
	for _, raw := range keys {
		key := registered(f, "keys", raw)
		if ids[key.ID] && key.ID != "" {
			f.Wrong("keys", "has two keys with the same kid")
		}
		ids[key.ID] = true
		r.Keys = append(r.Keys, key.JWK)
	}
	return r
}

func clientName(f *input.Fields, required bool) string {
	name, ok := f.Text("name", required)
	if ok && strings.TrimSpace(name) == "" {
		f.Wrong("name", "is not empty")
	}
	f.Check(tollgate.CheckText("name", name, 255), "")
	return name
}

// registered is a public JWK of a body. Nothing of it is repeated: it may be a private
// one.
func registered(f *input.Fields, name string, raw jsontext.Value) auth.RegisteredKey {
	key, err := auth.RegisterKey(raw)
	if err != nil {
		f.Wrong(name, fmt.Sprintf("is refused: %s. A key is a public JWK: P-256, Ed25519 with its alg, or RSA of 2048 to 4096 bits", err))
	} else if strings.ContainsFunc(key.ID, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/\?#%"`, r) }) {
		f.Wrong(name, `is refused: its kid goes into a path, so it is ASCII without spaces and / \ ? # % "`)
	}
	return key
}

// ClientChange is the body of PATCH /v1/clients/{client_id}; nil: what it is stays.
type ClientChange struct {
	Name, Status *string
	DPoPBound    *bool
}

// ParseClientChange reads it.
func ParseClientChange(f *input.Fields) (r ClientChange) {
	name := clientName(f, false)
	status := f.Choice("status", tollgate.StatusActive, tollgate.StatusActive, tollgate.ClientDisabledStatus)
	for member, value := range map[string]*string{"name": &name, "status": &status} {
		f.NeedsValue(member)
		if !f.Has(member) {
			*value = ""
		}
	}
	if name != "" {
		r.Name = &name
	}
	if status != "" {
		r.Status = &status
	}
	f.NeedsValue(dpopBound)
	if bound := f.Flag(dpopBound, false); f.Has(dpopBound) {
		r.DPoPBound = &bound
	}
	return r
}

// Make changes a client.
func (r ClientChange) Make(o *tollgate.Client) error {
	if r.Name != nil {
		o.Name = *r.Name
	}
	if r.Status != nil {
		o.Status = *r.Status
	}
	if r.DPoPBound != nil {
		o.DPoPBound = *r.DPoPBound
	}
	return nil
}

// NewKey is the body of POST /v1/clients/{client_id}/keys.
type NewKey struct {
	JWK jsontext.Value `json:"jwk"`

	ID string `json:"-"`
}

// ParseNewKey reads it.
func ParseNewKey(f *input.Fields) NewKey {
	raw, ok := f.Value("jwk", true, "a public JWK", '{')
	if !ok {
		return NewKey{}
	}
	key := registered(f, "jwk", raw)
	return NewKey{key.JWK, key.ID}
}

// Answer is a client as the service answers it.
func Answer(c *tollgate.Client) (tollgate.ClientAnswer, error) {
	a := tollgate.ClientAnswer{
		Object: "client", ID: c.ID, CreatedAt: c.CreatedAt, OrganizationID: c.OrganizationID, Name: c.Name, Status: c.Status,
		Keys: []jsontext.Value{}, GrantIDs: slices.Concat([]string{}, c.GrantIDs), DPoPBound: c.DPoPBound,
	}
	for _, stored := range c.Keys {
		key, err := auth.RegisterKey([]byte(stored))
		if err != nil {
			return a, tollgate.Damage("client", c.ID, err)
		}
		a.Keys = append(a.Keys, key.JWK)
	}
	return a, nil
}

// Add gives a client the key.
func (k NewKey) Add(o *tollgate.Client) error {
	at, err := keyAt(o, k.ID)
	if err == nil && at >= 0 {
		err = tollgate.Invalid("jwk", "The client has a key with this kid already. Give the new one another kid.")
	}
	o.Keys = append(o.Keys, string(k.JWK))
	return err
}

// Remove takes a key from a client.
func Remove(o *tollgate.Client, kid string) error {
	at, err := keyAt(o, kid)
	if err == nil && at < 0 {
		err = tollgate.NotFound()
	}
	if err == nil {
		o.Keys = slices.Delete(o.Keys, at, at+1)
	}
	return err
}

// keyAt is where a client has a key; -1: nowhere.
func keyAt(o *tollgate.Client, kid string) (int, error) {
	for i, stored := range o.Keys {
		key, err := auth.RegisterKey([]byte(stored))
		if err != nil {
			return -1, fmt.Errorf("client %s: %w", o.ID, err)
		}
		if key.ID == kid {
			return i, nil
		}
	}
	return -1, nil
}
