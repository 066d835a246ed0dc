package console

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Problem is an error that the console answers with.
type Problem struct {
	Status  int // of HTTP
	Code    string
	Message string // for people
}

// Error is the message.
func (p *Problem) Error() string { return p.Message }

var nothingHere = &Problem{http.StatusNotFound, "not_found", "There is nothing at this address."}

// refuse answers with an error in the form of the API's own (RFC 9457).
func refuse(w http.ResponseWriter, err error) {
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		p = &Problem{http.StatusInternalServerError, "internal_error", err.Error()}
	}
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, p.Status, struct {
		Type    string `json:"type"`
		Title   string `json:"title"`
		Status  int    `json:"status"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}{"urn:tollgate:error:" + p.Code, http.StatusText(p.Status), p.Status, p.Code, p.Message})
}

// answer is a success.
func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, http.StatusOK, v)
}

func write(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		http.Error(w, "The console cannot write its answer.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
