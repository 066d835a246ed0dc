package worker_test

import (
	"slices"
	"strings"
	"testing"

	"tollgate"
	"tollgate/handlers/audit"
	"tollgate/handlers/worker"
	"tollgate/rediskv"
	"tollgate/rediskv/redistest"
)

// An entry has the same bytes as it is stored, as a leaf, in its proof and in an ndjson
// export: whoever has one of them computes the leaf's hash (interface §5).
func TestAuditTextsAreTheSame(t *testing.T) {
	s := newShop(t, redistest.URL(t))
	s.trade(t, 8)
	for _, reason := range []string{"", "<&>\u2028", `"\/`, "ä\x01\U0001F600", "1e400"} {
		entry := tollgate.AuditEntry{Type: "payment.create", Outcome: "refused", Reason: reason, Target: tollgate.AuditTarget{Type: "payment", ID: "pay_1"}}
		if err := s.Audit(t.Context(), s.Caller, entry); err != nil {
			t.Fatal(err)
		}
	}
	s.works(t, worker.Config{})
	file := s.file(t, s.finished(t, s.export(t, tollgate.DatasetAudit, tollgate.FormatNDJSON, tollgate.ExportFilter{})))
	exported := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	s.sealed(t)
	log, err := s.Redis.XRange(t.Context(), s.Space(s.Caller.Organization).Audit(), "-", "+").Result()
	if err != nil || len(exported) < 20 || len(log) < len(exported) {
		t.Fatalf("%d entries are stored and %d are exported: %v", len(log), len(exported), err)
	}
	stored := make([]string, len(exported)) // the export itself has younger ones
	for i := range stored {
		stored[i] = rediskv.Text(log[i], "b")
	}
	rows, _, err := s.AuditLeaves(t.Context(), s.Caller, "", "", len(stored))
	if err != nil {
		t.Fatal(err)
	}
	var leaves, proofs []string
	for i, row := range rows {
		leaves = append(leaves, *row.Entry)
		id, _, _ := strings.Cut(strings.TrimPrefix(stored[i], `{"id":"`), `"`)
		proof, err := audit.Prove(t.Context(), s.Store, s.Caller, id)
		if err != nil {
			t.Fatal(err)
		}
		proofs = append(proofs, proof.Entry)
	}
	for what, texts := range map[string][]string{"exported": exported, "leaves": leaves, "proofs": proofs} {
		if !slices.Equal(texts, stored) {
			t.Errorf("%s:\n%s\nstored:\n%s", what, strings.Join(texts, "\n"), strings.Join(stored, "\n"))
		}
	}
}
