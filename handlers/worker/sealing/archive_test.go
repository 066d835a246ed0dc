package sealing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate"
	"tollgate/handlers/audit"
	"tollgate/handlers/tlog/auditor"
	"tollgate/handlers/worker/sealing"
	"tollgate/rediskv"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/eventlog"
	"tollgate/rediskv/packs/shelf"
	stored "tollgate/rediskv/record"
	"tollgate/rediskv/streams"
	"tollgate/rediskv/testkit"
)

// archive has entries put into packs before they are trimmed.
func (r *record) archive(at string, o logs.Options) *logs.Store {
	r.Helper()
	on, err := shelf.Open("file://" + at)
	must(r, err)
	o.Shelves, o.Scratch = []shelf.Shelf{on}, at
	a := logs.New(r.DB, o)
	r.UseLogs(a)
	return a
}

// trim removes all that may go.
func (r *record) trim(ctx context.Context, by *sealing.Sealer) (int64, error) {
	return by.Trim(ctx, r.space().Partition, tollgate.At(time.Now().Add(time.Hour)))
}

// heard is all that anybody is told about the record: each leaf, each page of each kind of
// list, and each entry that is proven.
func (r *record) heard() map[string]string {
	r.Helper()
	all := map[string]string{}
	say := func(name string, v any, err error) {
		text, failed := json.Marshal(v)
		must(r, failed)
		all[name] = fmt.Sprintf("%s %v", text, err)
	}
	for after, page := "", 0; ; page++ {
		rows, next, err := r.AuditLeaves(r.Context(), r.Caller, "", after, 77)
		must(r, err)
		for i, row := range rows {
			say(fmt.Sprintf("leaf %d", row.Index), row, nil)
			if row.Entry != nil && (i+page)%61 == 0 {
				proof, err := audit.Prove(r.Context(), r.Store, r.Caller, idIn(*row.Entry))
				proof.Note, proof.Size, proof.Hashes = nil, nil, nil // they are of the last checkpoint
				say("proof of "+idIn(*row.Entry), proof, err)
			}
		}
		if after = next; next == "" {
			break
		}
	}
	middle := r.last().Last.CreatedAt
	for name, q := range map[string]eventlog.AuditQuery{
		"all": {Limit: 90}, "of nobody": {Limit: 50, Actor: "cli_none"}, "refused": {Limit: 70, Outcome: "refused"},
		"before": {Limit: 60, CreatedBefore: middle}, "after": {Limit: 60, CreatedAfter: middle},
	} {
		var texts []string
		for more := true; more; more = q.After != "" {
			rows, next, err := r.AuditEntries(r.Context(), r.Caller, q)
			must(r, err)
			for _, row := range rows {
				text, err := json.Marshal(row.AuditEntry, json.Deterministic(true))
				must(r, err)
				texts = append(texts, string(text))
			}
			q.After = next
		}
		say("the list "+name, texts, nil)
	}
	return all
}

func (r *record) same(when string, before, after map[string]string) {
	r.Helper()
	wrong := 0
	for name, text := range before {
		if after[name] != text {
			if wrong++; wrong < 4 {
				r.Errorf("%s: %s was\n%.300s\nand is\n%.300s", when, name, text, after[name])
			}
		}
	}
	if len(before) != len(after) {
		r.Errorf("%s: %d answers, not %d", when, len(after), len(before))
	}
}

// tiles is how many tiles have their leaves' hashes, and how many do not.
func (r *record) tiles() (whole, forgotten int) {
	r.Helper()
	for i := range r.last().Size / 256 {
		n, err := r.raw.StrLen(r.Context(), r.space().AuditTile(r.last().HistoryID, 0, i)).Result()
		must(r, err)
		if n > 8192 {
			whole++
		} else {
			forgotten++
		}
	}
	return whole, forgotten
}

// Entries leave Redis, and the hashes of their leaves, and nobody who reads the record notices:
// lists, leaves and proofs are the same, an auditor is content, and so is who keeps an earlier
// checkpoint.
func TestAuditInPacks(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.serve()
	r.write(300)
	r.seal()
	early := r.last().Last
	r.NextMilli(t)
	r.write(520)
	r.seal()
	a := r.archive(t.TempDir(), logs.Options{Rows: 333})
	before := r.heard()
	n, err := r.trim(t.Context(), r.own)
	must(t, err)
	if whole, forgotten := r.tiles(); n < 700 || forgotten < 3 || whole > 0 {
		t.Fatalf("%d entries are gone, of %d tiles the hashes, and not of %d", n, forgotten, whole)
	}
	r.same("in packs", before, r.heard())
	if report := r.green(early.Note); report.Trees[0].Checked != r.last().Size || r.last().KeptFrom != 0 {
		t.Errorf("%+v", report.Trees)
	}
	testkit.Consistent(t, r.Store)
	if _, err := a.Check(t.Context(), r.space().Partition, false, func(f logs.Finding) { t.Errorf("%+v", f) }); err != nil {
		t.Error(err)
	}
	if n, err := r.trim(t.Context(), r.own); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	r.NextMilli(t)
	r.write(300)
	r.seal()
	r.NextMilli(t)
	r.write(3)
	before = r.heard()
	n, err = r.trim(t.Context(), r.own)
	must(t, err)
	if whole, forgotten := r.tiles(); n < 250 || forgotten < 4 || whole > 0 {
		t.Errorf("%d more are gone, of %d tiles the hashes, and not of %d", n, forgotten, whole)
	}
	r.same("more in packs", before, r.heard())
	r.green(early.Note)
	testkit.Consistent(t, r.Store)

	r.UseLogs(nil) // an instance that knows of no archive
	if _, _, err := r.AuditLeaves(t.Context(), r.Caller, "", "", 10); testkit.Code(err) != string(tollgate.CodeArchiveUnavailable) {
		t.Errorf("without the archive: %v", err)
	}
	if _, _, err := r.AuditEntries(t.Context(), r.Caller, eventlog.AuditQuery{Limit: 1000}); testkit.Code(err) != string(tollgate.CodeArchiveUnavailable) {
		t.Errorf("without the archive: %v", err)
	}
	r.NextMilli(t)
	r.write(10)
	r.seal()
	if n, err := r.trim(t.Context(), r.own); err != nil || r.last().KeptFrom != 0 {
		t.Errorf("without the archive %d are gone, %v", n, err)
	}
}

// Wherever a worker dies, the next one goes on.
func TestAuditPackerDies(t *testing.T) {
	t.Parallel()
	for dies, dead := 1, "-"; dead != ""; dies++ {
		r := newRecord(t)
		r.serve()
		r.write(540)
		r.seal()
		at := t.TempDir()
		before := r.heard()
		ctx, die := context.WithCancel(t.Context())
		steps := 0
		dead = ""
		r.archive(at, logs.Options{Rows: 300, Step: func(_ int, step string) {
			if steps++; steps == dies {
				dead = step
				die()
			}
		}})
		if _, err := r.trim(ctx, r.own); err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
		die()
		r.archive(at, logs.Options{})
		r.same("dead behind "+dead, before, r.heard())
		_, err := r.trim(t.Context(), r.sealer())
		must(t, err)
		r.same("after "+dead, before, r.heard())
		if whole, forgotten := r.tiles(); whole != 0 || forgotten != 2 {
			t.Errorf("dead behind %s: %d tiles have hashes, and %d do not", dead, whole, forgotten)
		}
		r.green()
	}
}

// What the retention has removed before there was an archive has no entry, and its leaves'
// hashes stay; so do those of a tile that has some of both.
func TestArchiveBehindTheRetention(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.serve()
	r.write(300)
	for r.newest() == r.oldest() {
		r.write(1)
	}
	keep := r.newest()
	r.write(900)
	r.seal()
	_, err := r.own.Trim(t.Context(), r.space().Partition, keep)
	must(t, err)
	kept := r.last().KeptFrom
	r.archive(t.TempDir(), logs.Options{})
	before := r.heard()
	_, err = r.trim(t.Context(), r.own)
	must(t, err)
	whole, forgotten := r.tiles()
	if first := (kept + 255) / 256; int64(whole) > first+1 || whole == 0 || forgotten < 2 {
		t.Errorf("entries from %d on are in packs: %d tiles have hashes, and %d do not", kept, whole, forgotten)
	}
	r.same("in packs", before, r.heard())
	r.green()
}

// What packs have is not what was sealed: the hashes stay, and everybody is told. Where they
// are gone already, the tile above says so.
func TestPacksThatDiffer(t *testing.T) {
	t.Parallel()
	r := newRecord(t)
	r.serve()
	r.write(540)
	r.seal()
	log := r.log()
	log[300] = clone(log[300])
	log[300].Values["b"] = strings.Replace(audittree.Text(log[300]), `"reason":"any"`, `"reason":"all"`, 1)
	r.put(log)
	r.archive(t.TempDir(), logs.Options{})
	if _, err := r.trim(t.Context(), r.own); !rediskv.IsDamage(err) {
		t.Fatalf("an entry was changed: %v", err)
	}
	if whole, forgotten := r.tiles(); whole != 1 || forgotten != 1 {
		t.Errorf("%d tiles have hashes, and %d do not", whole, forgotten)
	}
	if kinds, all := r.found(); len(kinds) != 1 || kinds[0] != auditor.Changed || all[0].Seq != 301 {
		t.Errorf("an auditor finds %v", all)
	}
	key := r.space().AuditTile(r.last().HistoryID, 0, 0)
	text, err := stored.Enveloped(key, map[string]string{"hashes": "", "first": log[1].ID, "last": streams.Next(log[256].ID)})
	must(t, err)
	must(t, r.raw.Set(t.Context(), key, string(text), 0).Err())
	if _, _, err := r.AuditLeaves(t.Context(), r.Caller, "", "", 10); !rediskv.IsDamage(err) {
		t.Errorf("a tile of other entries: %v", err)
	}
}
