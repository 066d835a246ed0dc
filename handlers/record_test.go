package handlers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"tollgate"
)

// checkRecord looks at what a conversation has left behind: an audit record
// without gaps and of one shape, and no credential anywhere (interface §5).
func (w *world) checkRecord(t *testing.T) {
	t.Helper()
	all := dump(t, w.redis)
	for _, org := range []string{"org", "other_org"} {
		for i, text := range all.stream(w.vars[org] + ":audit") {
			var e tollgate.AuditEntry
			if err := json.Unmarshal([]byte(text), &e, json.RejectUnknownMembers(true)); err != nil {
				t.Fatalf("audit entry: %v: %s", err, text)
			}
			ours := strings.HasPrefix(e.Type, "grant.") || e.Request.ID == "" // the operator's and the clock's
			switch {
			case e.Seq != int64(i+1), !strings.HasPrefix(e.ID, "aud_"), e.Time == 0, e.Type == "", e.Target.Type == "" && e.Outcome == "succeeded",
				!slices.Contains([]string{"succeeded", "refused", "denied"}, e.Outcome), e.Outcome == "denied" && e.Reason == "",
				!ours && (!strings.HasPrefix(e.Request.ID, "req_") || !strings.HasPrefix(e.Actor.ClientID, "cli_") || e.Request.Status == 0 || e.Request.Method == ""):
				t.Errorf("entry %d of the audit record: %s", i+1, text)
			}
			for name, id := range w.vars {
				if len(id) > 10 && strings.Contains(e.Request.Route, id) {
					t.Errorf("an audit entry's route has %s in it: %s", name, text)
				}
			}
		}
	}
	log := w.log.String()
	for _, secret := range w.secrets {
		signature := secret[strings.LastIndexByte(secret, '.')+1:]
		for key, value := range all {
			if strings.Contains(value, signature) {
				t.Errorf("%s holds a credential", key)
			}
		}
		if strings.Contains(log, signature) {
			t.Errorf("the log holds a credential")
		}
	}
	for name, word := range map[string]string{"a query": "cursor=", "a body": "shop.example", "a header": "Bearer"} {
		if strings.Contains(log, word) {
			t.Errorf("the log holds %s", name)
		}
	}
}
