package tollgate_test

import (
	"testing"

	"tollgate"
)

// TestWebhookDecisions: what becomes of an endpoint's health, and which event says
// what has happened.
func TestWebhookDecisions(t *testing.T) {
	f, o := tollgate.WebhookFacts{Endpoints: tollgate.MaxWebhooks - 1, Revision: 9}, tollgate.Origin{Organization: "org_1", RequestID: "req_1", At: 2000}
	active := tollgate.Endpoint{Revision: 4, WebhookEndpoint: tollgate.WebhookEndpoint{ID: "we_1", URL: "https://a.example", Status: tollgate.WebhookActive, Secret: "whsec_1"}}
	disabled, moved, renamed := active, active, active
	disabled.Status, moved.URL, renamed.SchemaVersion = tollgate.WebhookDisabledStatus, "https://b.example", "2"
	for _, row := range []struct {
		name, data string
		event      tollgate.EventType
		renewed    bool
		decide     func() (*tollgate.WebhookChange, error)
	}{
		{
			"created", `{"webhook_id":"we_1","status":"active","disabled_reason":null}`, tollgate.WebhookCreated, true,
			func() (*tollgate.WebhookChange, error) { return f.Create(counted(), o, active) },
		},
		{
			"enabled", `{"webhook_id":"we_1","status":"active","disabled_reason":null}`, tollgate.WebhookEnabled, true,
			func() (*tollgate.WebhookChange, error) {
				return f.Change(counted(), o, disabled, active, tollgate.WebhookEnabled)
			},
		},
		{
			"moved", `{"webhook_id":"we_1","status":"active","disabled_reason":null}`, tollgate.WebhookUpdated, true,
			func() (*tollgate.WebhookChange, error) {
				return f.Change(counted(), o, active, moved, tollgate.WebhookUpdated)
			},
		},
		{
			"changed otherwise", `{"webhook_id":"we_1","status":"active","disabled_reason":null}`, tollgate.WebhookUpdated, false,
			func() (*tollgate.WebhookChange, error) {
				return f.Change(counted(), o, active, renamed, tollgate.WebhookUpdated)
			},
		},
		{
			"disabled", `{"webhook_id":"we_1","status":"disabled","disabled_reason":"gone"}`, tollgate.WebhookDisabled, false,
			func() (*tollgate.WebhookChange, error) { return f.Disable(counted(), o, active, "gone") },
		},
		{
			"moved while disabled", `{"webhook_id":"we_1","status":"disabled","disabled_reason":null}`, tollgate.WebhookUpdated, false,
			func() (*tollgate.WebhookChange, error) {
				away := disabled
				away.URL = moved.URL
				return f.Change(counted(), o, disabled, away, tollgate.WebhookUpdated)
			},
		},
		{
			"removed", `{"webhook_id":"we_1","status":"active","disabled_reason":null}`, tollgate.WebhookDeleted, false,
			func() (*tollgate.WebhookChange, error) { return f.Remove(counted(), o, active) },
		},
	} {
		c, err := row.decide()
		if err != nil {
			t.Fatal(err)
		}
		if c.Event.Type != row.event || c.Audit.Type != string(row.event) || string(c.Event.Data) != row.data || c.Renewed != row.renewed {
			t.Errorf("%s: %s %s, renewed %v", row.name, c.Event.Type, c.Event.Data, c.Renewed)
		}
		revision := int64(4)
		if row.name == "created" {
			revision = 0
		}
		if c.Endpoint.Secret != "" || c.Endpoint.Revision != revision || c.Facts.Revision != 9 || c.Removed != (row.name == "removed") {
			t.Errorf("%s: %+v", row.name, c)
		}
		if (row.name == "disabled") != (c.Endpoint.UpdatedAt == 2000) {
			t.Errorf("%s: updated at %d", row.name, c.Endpoint.UpdatedAt)
		}
	}
	f.Endpoints++
	if _, err := f.Create(counted(), o, active); codeOf(err) != "quota_exceeded webhooks" {
		t.Error(err)
	}
}
