package conform_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tollgate/handlers/conform"
)

// witness is a test that only remembers what was reported to it.
type witness struct {
	testing.TB
	reports []string
}

func (w *witness) Errorf(format string, args ...any) {
	w.reports = append(w.reports, fmt.Sprintf(format, args...))
}

// answering serves the document's example of a payment, with a key more when
// the reference asks for it.
func answering(t *testing.T) http.Handler {
	e := find(t, "createPayment 201")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for name, values := range e.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(e.Status)
		body := string(e.Body)
		if strings.Contains(string(sent), "wrong") {
			body = strings.Replace(body, "{", `{"undocumented":true,`, 1)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Error(err)
		}
	})
}

func TestRecorder(t *testing.T) {
	for name, connect := range map[string]func(t *testing.T, r *conform.Recorder, tb testing.TB) (*http.Client, string){
		"transport": func(t *testing.T, r *conform.Recorder, tb testing.TB) (*http.Client, string) {
			server := httptest.NewServer(answering(t))
			t.Cleanup(server.Close)
			return &http.Client{Transport: r.Transport(tb, server.Client().Transport)}, server.URL
		},
		"handler": func(t *testing.T, r *conform.Recorder, tb testing.TB) (*http.Client, string) {
			server := httptest.NewServer(r.Handler(tb, answering(t)))
			t.Cleanup(server.Close)
			return server.Client(), server.URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := find(t, "createPayment 201")
			w := new(witness)
			recorder := conform.NewRecorder(document(t))
			client, base := connect(t, recorder, w)
			send := func(body string) string {
				request, err := http.NewRequest(http.MethodPost, base+"/v1/payments", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				request.Header = e.Request.Header.Clone()
				answer, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				if err != nil {
					t.Fatal(err)
				}
				if err := answer.Body.Close(); err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			if slices.Contains(recorder.Unseen(), "createPayment 201") == false {
				t.Error("seen before it came")
			}
			if got := send(string(e.RequestBody)); got != string(e.Body) || len(w.reports) > 0 {
				t.Errorf("a good exchange: %v, %s", w.reports, got)
			}
			if slices.Contains(recorder.Unseen(), "createPayment 201") {
				t.Error("not seen after it came")
			}
			if got := send(strings.Replace(string(e.RequestBody), "order-10482", "wrong", 1)); !strings.Contains(got, "undocumented") || len(w.reports) != 1 {
				t.Errorf("an undocumented key: %v", w.reports)
			}
			if send(`{"amount":1}`); len(w.reports) != 2 {
				t.Errorf("a bad request that succeeded: %v", w.reports)
			}
		})
	}
}
