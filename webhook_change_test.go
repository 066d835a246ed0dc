package tollgate_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"tollgate"
)

// testNow is a moment, and testOrigin who changes something then.
const testNow tollgate.Instant = 1_800_000_000_000

var testOrigin = tollgate.Origin{Organization: "org_1", RequestID: "req_1", At: testNow}

// testMint makes identifiers that tests know.
func testMint(prefix string) string { return prefix + "01m0000000" + strings.Repeat("n", 16) }

// zeros is entropy without surprises.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func testKeys(t *testing.T) tollgate.WebhookKeys {
	t.Helper()
	return tollgate.WebhookKeys{Entropy: zeros{}, Seal: func(place string, secret []byte) ([]byte, error) {
		return append([]byte(place), secret...), nil
	}}
}

// endpoint is one that was made an hour ago, with keys for a scheme.
func endpoint(t *testing.T, scheme tollgate.SignatureScheme) tollgate.StoredWebhook {
	t.Helper()
	made := testNow.Add(-time.Hour)
	w := tollgate.StoredWebhook{Revision: 7, WebhookEndpoint: tollgate.WebhookEndpoint{
		Object: "webhook_endpoint", ID: "we_1", CreatedAt: made, UpdatedAt: made, URL: "https://shop.example/hooks", Status: tollgate.WebhookActive,
		SignatureScheme: scheme,
	}}
	if _, err := testKeys(t).Make(&w, made); err != nil {
		t.Fatal(err)
	}
	return w
}

// codeOf is the code of an error, and its parameter.
func codeOf(err error) string {
	var e *tollgate.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	return strings.TrimSpace(string(e.Code) + " " + e.Param)
}

func TestChangeWebhook(t *testing.T) {
	disabled := func(w *tollgate.StoredWebhook) {
		reason := "gone"
		w.Status, w.DisabledReason = tollgate.WebhookDisabledStatus, &reason
	}
	for name, test := range map[string]struct {
		was   func(*tollgate.StoredWebhook)
		how   func(*tollgate.WebhookEndpoint)
		event tollgate.EventType // empty: nothing changes
		data  string
		anew  bool
	}{
		"nothing":              {how: func(*tollgate.WebhookEndpoint) {}},
		"what it has":          {how: func(w *tollgate.WebhookEndpoint) { w.EventTypes, w.Metadata = []string{}, tollgate.Metadata{} }},
		"disabled twice":       {was: disabled, how: func(w *tollgate.WebhookEndpoint) { w.Status = tollgate.WebhookDisabledStatus }},
		"its types":            {how: func(w *tollgate.WebhookEndpoint) { w.EventTypes = []string{"payment.*"} }, event: tollgate.WebhookUpdated, data: `"active" null`},
		"its address":          {how: func(w *tollgate.WebhookEndpoint) { w.URL = "https://b.example/" }, event: tollgate.WebhookUpdated, data: `"active" null`, anew: true},
		"disabled":             {how: func(w *tollgate.WebhookEndpoint) { w.Status = tollgate.WebhookDisabledStatus }, event: tollgate.WebhookDisabled, data: `"disabled" "requested"`},
		"enabled":              {was: disabled, how: func(w *tollgate.WebhookEndpoint) { w.Status = tollgate.WebhookActive }, event: tollgate.WebhookEnabled, data: `"active" null`, anew: true},
		"a disabled one moves": {was: disabled, how: func(w *tollgate.WebhookEndpoint) { w.URL = "https://b.example/" }, event: tollgate.WebhookUpdated, data: `"disabled" "gone"`},
	} {
		was := endpoint(t, tollgate.SignatureV1)
		if test.was != nil {
			test.was(&was)
		}
		want := was.WebhookEndpoint
		test.how(&want)
		ch, err := tollgate.ChangeWebhook(testMint, testOrigin, testKeys(t), was, want)
		if err != nil || (ch == nil) != (test.event == "") {
			t.Errorf("%s: %+v %v", name, ch, err)
			continue
		}
		if ch == nil {
			continue
		}
		status, reason, _ := strings.Cut(test.data, " ")
		data := fmt.Sprintf(`{"webhook_id":"we_1","status":%s,"disabled_reason":%s}`, status, reason)
		if ch.Event.Type != test.event || string(ch.Event.Data) != data || ch.Event.CreatedAt != testNow || *ch.Event.RequestID != "req_1" {
			t.Errorf("%s: %s %s, want %s %s", name, ch.Event.Type, ch.Event.Data, test.event, data)
		}
		if ch.Anew != test.anew || ch.Webhook.UpdatedAt != testNow || ch.Webhook.Revision != 7 || ch.List != nil || ch.Secret != "" {
			t.Errorf("%s: %+v", name, ch)
		}
	}
}

func TestCreateWebhook(t *testing.T) {
	for there, refused := range map[int]string{0: "<nil>", tollgate.MaxWebhooks - 1: "<nil>", tollgate.MaxWebhooks: "quota_exceeded webhooks", tollgate.MaxWebhooks + 1: "quota_exceeded webhooks"} {
		w := endpoint(t, tollgate.SignatureV1)
		w.Revision, w.Secret = 0, "whsec_x"
		ch, err := tollgate.CreateWebhook(testMint, testOrigin, tollgate.WebhookList{Count: there, Revision: 9}, w)
		if codeOf(err) != refused {
			t.Errorf("%d there: %v", there, err)
		}
		if err == nil && (ch.Event.Type != tollgate.WebhookCreated || ch.List.Revision != 9 || !ch.Anew || ch.Webhook.Secret != "") {
			t.Errorf("%+v", ch)
		}
	}
}

func TestDisableAndDeleteWebhook(t *testing.T) {
	was := endpoint(t, tollgate.SignatureV1)
	off, err := tollgate.DisableWebhook(testMint, testOrigin, was, "gone")
	if err != nil || off.Event.Type != tollgate.WebhookDisabled || off.Webhook.Status != tollgate.WebhookDisabledStatus || *off.Webhook.DisabledReason != "gone" ||
		off.Webhook.UpdatedAt != testNow || was.Status != tollgate.WebhookActive {
		t.Errorf("%+v %v", off, err)
	}
	if again, err := tollgate.DisableWebhook(testMint, testOrigin, off.Webhook, "failing"); again != nil || err != nil {
		t.Errorf("%+v %v", again, err)
	}
	if gone, err := tollgate.DeleteWebhook(testMint, testOrigin, off.Webhook); err != nil || gone.Event.Type != tollgate.WebhookDeleted || gone.Webhook.Revision != 7 || gone.Anew {
		t.Errorf("%+v %v", gone, err)
	}
}

// versions are an endpoint's keys, each with the seconds that it signs on; and
// every one has its secret.
func versions(t *testing.T, w tollgate.StoredWebhook) (list []string) {
	t.Helper()
	for _, k := range w.SigningKeys {
		left := "on"
		if k.ExpiresAt != 0 {
			left = fmt.Sprint(int64(k.ExpiresAt-testNow) / 1000)
		}
		list = append(list, fmt.Sprintf("%d/%s %s", k.Version, k.Scheme, left))
	}
	if len(w.Sealed) != len(w.SigningKeys) {
		t.Errorf("%d keys, %d secrets", len(w.SigningKeys), len(w.Sealed))
	}
	for i, k := range w.Sealed {
		if k.Version != w.SigningKeys[i].Version || k.Scheme != w.SigningKeys[i].Scheme {
			t.Errorf("the secret of %d/%s stands at %s", k.Version, k.Scheme, list[i])
		}
	}
	return list
}

func TestRotateWebhook(t *testing.T) {
	keys, w := testKeys(t), endpoint(t, tollgate.SignatureV1)
	for i, step := range []struct {
		overlap time.Duration
		want    []string
	}{
		{time.Hour, []string{"1/v1 3600", "2/v1 on"}},
		{2 * time.Hour, []string{"1/v1 3600", "2/v1 7200", "3/v1 on"}}, // an end stays
		{time.Hour, []string{"2/v1 3600", "3/v1 3600", "4/v1 on"}},     // three sign at most
		{0, []string{"5/v1 on"}},                                       // at once
	} {
		before := w
		was := versions(t, before)
		ch, err := tollgate.RotateWebhook(testMint, testOrigin, keys, w, step.overlap)
		if err != nil || ch.Event.Type != tollgate.WebhookSecretRotated || !strings.HasPrefix(ch.Secret, "whsec_") || ch.Webhook.UpdatedAt != testNow || ch.Anew {
			t.Fatalf("%+v %v", ch, err)
		}
		if got := versions(t, ch.Webhook); !reflect.DeepEqual(got, step.want) {
			t.Errorf("%d: %v, want %v", i, got, step.want)
		}
		if !reflect.DeepEqual(versions(t, before), was) {
			t.Errorf("%d: what was read has changed", i)
		}
		w = ch.Webhook
	}
}

func TestWebhookKeysMatchTheScheme(t *testing.T) {
	for _, test := range []struct {
		was, want tollgate.SignatureScheme
		keys      []string
		shown     bool
	}{
		{tollgate.SignatureV1, tollgate.SignatureBoth, []string{"1/v1 on", "2/v1a on"}, false},
		{tollgate.SignatureV1, tollgate.SignatureV1a, []string{"2/v1a on"}, false},
		{tollgate.SignatureV1a, tollgate.SignatureV1, []string{"2/v1 on"}, true},
		{tollgate.SignatureBoth, tollgate.SignatureV1, []string{"1/v1 on", "1/v1a 0"}, false}, // the newest number stays taken
	} {
		was := endpoint(t, test.was)
		want := was.WebhookEndpoint
		want.SignatureScheme = test.want
		ch, err := tollgate.ChangeWebhook(testMint, testOrigin, testKeys(t), was, want)
		if err != nil || ch.Event.Type != tollgate.WebhookUpdated || (ch.Secret != "") != test.shown {
			t.Fatalf("%s to %s: %+v %v", test.was, test.want, ch, err)
		}
		if got := versions(t, ch.Webhook); !reflect.DeepEqual(got, test.keys) {
			t.Errorf("%s to %s: %v, want %v", test.was, test.want, got, test.keys)
		}
		if versions(t, was); was.SigningKeys[0].ExpiresAt != 0 {
			t.Errorf("%s to %s: what was read has changed", test.was, test.want)
		}
	}
}
