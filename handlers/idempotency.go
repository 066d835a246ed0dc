package handlers

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/rediskv"
)

// idempotencyKey is the key of a request as it counts, empty when there is
// none (interface §4). That the header stands once is checked before.
func idempotencyKey(h http.Header, use keyUse) (string, error) {
	headers := h["Idempotency-Key"]
	switch {
	case use == keyIgnored || (use == keyAccepted && len(headers) == 0):
		return "", nil
	case len(headers) == 0:
		return "", &tollgate.Error{
			Code: tollgate.CodeIdempotencyKeyRequired, Param: "Idempotency-Key",
			Message: "This request needs the header Idempotency-Key, so that it can be repeated without being carried out twice.",
		}
	}
	return parseIdempotencyKey(headers[0])
}

// parseIdempotencyKey makes one key of the IETF form with quotes and the bare
// form.
func parseIdempotencyKey(text string) (string, error) {
	key := text
	if len(key) >= 2 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		key = key[1 : len(key)-1]
	}
	ok := len(key) >= 1 && len(key) <= 255
	for i := 0; ok && i < len(key); i++ {
		ok = key[i] > ' ' && key[i] < 0x7f
	}
	if !ok {
		return "", keyInvalid("An Idempotency-Key has 1 to 255 visible ASCII characters.")
	}
	return key, nil
}

func keyInvalid(message string) *tollgate.Error {
	return &tollgate.Error{Code: tollgate.CodeIdempotencyKeyInvalid, Param: "Idempotency-Key", Message: message}
}

// idempotency identifies a request for the store. request is the decoded one
// with its defaults filled in and amounts as Money prints them: white space,
// order and spelled-out defaults make no other request. earlier is what earlier
// releases made of it, where that can differ.
func (c *call) idempotency(account, operation string, request any, earlier ...any) (rediskv.Idempotency, error) {
	idem := rediskv.Idempotency{Scope: account + ":" + operation, Key: c.idem}
	var err error
	if idem.Fingerprint, err = c.fingerprint(operation, request); err != nil {
		return idem, err
	}
	for _, request := range earlier {
		if idem.Earlier, err = c.fingerprint(operation, request); err != nil {
			return idem, err
		}
	}
	return idem, nil
}

func (c *call) fingerprint(operation string, request any) (string, error) {
	text, err := json.Marshal(struct {
		Operation string `json:"operation"`
		ID        string `json:"id"`
		Request   any    `json:"request"`
	}{operation, c.pathIDs(), request}, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// orRepeated is what a refusal becomes whose reason can change from one
// request to the next: the answer of an earlier request with the same key, if
// there was one, else the refusal.
func (s *Server) orRepeated(c *call, idem rediskv.Idempotency, refusal error) (*answer, error) {
	if idem.Key == "" {
		return nil, refusal
	}
	earlier, ok, err := s.store.FindRepeated(c.ctx, c.caller(StatusOf(errorOf(refusal).Code)), idem)
	switch {
	case err != nil && errorOf(err).Code != tollgate.CodeStoreUnavailable:
		return nil, err // the key is another request's, or the grant is gone
	case err != nil || !ok:
		return nil, refusal
	}
	return stored(earlier), nil
}
