package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/redistest"
)

// A worker with TOLLGATE_WITNESS_URL posts there what it seals: the checkpoint that the
// API answers with, as signed text.
func TestWitness(t *testing.T) {
	t.Parallel()
	type telling struct{ line, media, note string }
	told := make(chan telling, 16)
	witness := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		note, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		told <- telling{req.Method + " " + req.URL.String(), req.Header.Get("Content-Type"), string(note)}
	}))
	defer witness.Close()
	s := newSite(t, redistest.Single(t).URL)
	base := s.serve().serving()
	s.authenticate(base) // which is the first entry
	launch(t, append(s.env, "TOLLGATE_WITNESS_URL="+witness.URL+"/checkpoints?key=ours"), "work")
	var got telling
	select {
	case got = <-told:
	case <-time.After(patience):
		t.Fatal("the witness is told nothing")
	}
	var kept tollgate.List[audittree.Checkpoint]
	s.must(http.StatusOK, "GET", base+"/v1/audit/checkpoints", "", "").into(t, &kept)
	if got.line != "POST /checkpoints?key=ours" || got.media != "text/plain; charset=utf-8" ||
		!slices.ContainsFunc(kept.Data, func(c audittree.Checkpoint) bool { return c.Note == got.note }) {
		t.Errorf("the witness is told %+v; the checkpoints are %+v", got, kept.Data)
	}
}
