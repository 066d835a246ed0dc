package ledger

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Signed says whether a delivery is signed with a secret (Standard Webhooks).
func Signed(secret, event string, body []byte, h http.Header) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	sum := hmac.New(sha256.New, key)
	fmt.Fprintf(sum, "%s.%s.%s", event, h.Get("Webhook-Timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	return slices.Contains(strings.Fields(h.Get("Webhook-Signature")), want)
}
