package sealing_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tollgate/handlers/tlog"
	"tollgate/handlers/tlog/auditor"
	"tollgate/handlers/tlog/checkpoint"
	"tollgate/rediskv/audittree"
	"tollgate/rediskv/history"
	stored "tollgate/rediskv/record"
)

// log is the audit record as whoever can write to Redis sees it.
func (r *record) log() []audittree.Entry {
	r.Helper()
	found, err := r.raw.XRange(r.Context(), r.space().Audit(), "-", "+").Result()
	must(r, err)
	return found
}

// add writes an entry to a stream, at its own place.
func (r *record) add(key string, m audittree.Entry) {
	r.Helper()
	command := []any{"XADD", key, m.ID}
	for name, value := range m.Values {
		command = append(command, name, value)
	}
	must(r, r.raw.Do(r.Context(), command...).Err())
}

// put writes the log anew.
func (r *record) put(entries []audittree.Entry) {
	r.Helper()
	must(r, r.raw.Del(r.Context(), r.space().Audit()).Err())
	for _, m := range entries {
		r.add(r.space().Audit(), m)
	}
}

// copied is all of the organization's record and tree, to be put back later.
func (r *record) copied() (putBack func()) {
	r.Helper()
	keys, err := r.raw.Keys(r.Context(), r.space().AuditTree()+"*").Result()
	must(r, err)
	entries, texts := r.log(), map[string]string{}
	for _, key := range keys {
		if key != r.space().AuditCheckpoints() {
			texts[key], err = r.raw.Get(r.Context(), key).Result()
			must(r, err)
		}
	}
	checkpoints, err := r.raw.XRange(r.Context(), r.space().AuditCheckpoints(), "-", "+").Result()
	must(r, err)
	return func() {
		r.Helper()
		now, err := r.raw.Keys(r.Context(), r.space().AuditTree()+"*").Result()
		must(r, err)
		must(r, r.raw.Del(r.Context(), now...).Err())
		r.put(entries)
		for key, text := range texts {
			must(r, r.raw.Set(r.Context(), key, text, 0).Err())
		}
		for _, m := range checkpoints {
			r.add(r.space().AuditCheckpoints(), m)
		}
	}
}

// numbered is a record with so many sealed entries, in several steps, and a checkpoint
// that somebody has kept on the way.
func numbered(t *testing.T) (r *record, earlier string) {
	t.Helper()
	r = newRecord(t)
	r.serve()
	r.write(20)
	r.seal()
	earlier = r.last().Last.Note
	r.write(20)
	r.seal()
	r.write(2)
	r.green(earlier)
	return r, earlier
}

// found is what an auditor finds, as kind and numbers.
func (r *record) found(earlier ...string) (kinds []auditor.Kind, all []auditor.Finding) {
	r.Helper()
	for _, f := range r.verify(auditor.Options{Earlier: earlier}).Findings {
		kinds, all = append(kinds, f.Kind), append(all, f)
	}
	return kinds, all
}

func clone(m audittree.Entry) audittree.Entry {
	values := map[string]any{}
	for name, value := range m.Values {
		values[name] = value
	}
	return audittree.Entry{ID: m.ID, Values: values}
}

// Whoever can write to Redis changes the log. Each change is found, and the entries are
// named that it is about; all others are still found to be right.
func TestAttacksOnTheLog(t *testing.T) {
	t.Parallel()
	const at = 7 // an entry in the middle, of number 8
	edited := func(m audittree.Entry) audittree.Entry {
		m = clone(m)
		m.Values["b"] = strings.Replace(audittree.Text(m), `"reason":"any"`, `"reason":"all"`, 1)
		return m
	}
	for name, c := range map[string]struct {
		attack  func(log []audittree.Entry) []audittree.Entry
		kinds   []auditor.Kind
		numbers []int64
	}{
		"one byte of an entry": {func(log []audittree.Entry) []audittree.Entry {
			log[at] = edited(log[at])
			return log
		}, []auditor.Kind{auditor.Changed}, []int64{at + 1}},
		"the last sealed entry": {func(log []audittree.Entry) []audittree.Entry {
			log[len(log)-3] = edited(log[len(log)-3])
			return log
		}, []auditor.Kind{auditor.Changed}, []int64{-3}},
		"an entry that is no JSON": {func(log []audittree.Entry) []audittree.Entry {
			log[at] = clone(log[at])
			log[at].Values["b"] = "{"
			return log
		}, []auditor.Kind{auditor.Changed}, []int64{0}},
		"one removed":            {func(log []audittree.Entry) []audittree.Entry { return slices.Delete(log, at, at+1) }, []auditor.Kind{auditor.Missing}, []int64{at + 1}},
		"the first ones removed": {func(log []audittree.Entry) []audittree.Entry { return log[2:] }, []auditor.Kind{auditor.Missing}, []int64{1}},
		"all removed":            {func([]audittree.Entry) []audittree.Entry { return nil }, []auditor.Kind{auditor.Missing}, []int64{0}},
		"the end cut off":        {func(log []audittree.Entry) []audittree.Entry { return log[:len(log)-5] }, []auditor.Kind{auditor.Missing}, []int64{-5}},
		"one inserted": {func(log []audittree.Entry) []audittree.Entry {
			// In the place of one that follows, which moves on by one.
			next := clone(log[at])
			next.Values["b"] = strings.Replace(audittree.Text(next), "aud_", "aud_0", 1)
			ids := append(slices.Clone(log[:at]), next)
			return spread(append(ids, log[at:]...))
		}, []auditor.Kind{auditor.Inserted}, []int64{at + 1}},
		"two swapped": {func(log []audittree.Entry) []audittree.Entry {
			log[at].Values, log[at+1].Values = log[at+1].Values, log[at].Values
			return log
		}, []auditor.Kind{auditor.Reordered}, []int64{at + 2}},
		"one moved to the front": {func(log []audittree.Entry) []audittree.Entry {
			moved := log[at].Values
			for i := at; i > 0; i-- {
				log[i].Values = log[i-1].Values
			}
			log[0].Values = moved
			return log
		}, []auditor.Kind{auditor.Reordered}, []int64{at + 1}},
		"one removed and another changed": {func(log []audittree.Entry) []audittree.Entry {
			log[at+3] = edited(log[at+3])
			return slices.Delete(log, at, at+1)
		}, []auditor.Kind{auditor.Missing, auditor.Changed}, []int64{at + 1, at + 4}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, earlier := numbered(t)
			log := r.log()
			sealed := r.last().Size
			r.put(c.attack(log))
			kinds, all := r.found(earlier)
			if !slices.Equal(kinds, c.kinds) {
				t.Fatalf("found: %v", all)
			}
			for i, want := range c.numbers {
				if want < 0 {
					want = sealed + 3 + want // of those that are sealed, two more are not
				}
				if all[i].Seq != want {
					t.Errorf("it names number %d, not %d: %s", all[i].Seq, want, all[i])
				}
			}
		})
	}
}

// spread gives entries places of their own, in their order.
func spread(log []audittree.Entry) []audittree.Entry {
	for i := range log {
		log[i] = clone(log[i])
		log[i].ID = "1-" + strconv.Itoa(i+1)
	}
	return log
}

// Whoever keeps one checkpoint finds that the whole record was put back to an older copy,
// or goes on in another way from there. Without one, neither can be found.
func TestRollbackAndFork(t *testing.T) {
	t.Parallel()
	r, _ := numbered(t)
	putBack := r.copied()
	r.write(30)
	r.seal()
	kept := r.last().Last.Note
	putBack()
	r.green()
	if kinds, all := r.found(kept); !slices.Equal(kinds, []auditor.Kind{auditor.Rollback}) {
		t.Errorf("rolled back: %v", all)
	}
	r.write(60)
	r.own = r.sealer()
	r.seal()
	r.green()
	if kinds, all := r.found(kept); !slices.Equal(kinds, []auditor.Kind{auditor.Fork}) {
		t.Errorf("forked: %v", all)
	}
}

// Whoever writes to Redis and has no key cannot make hashes fit: those that fit a changed
// entry are not those that were signed.
func TestHashesWithoutTheKey(t *testing.T) {
	t.Parallel()
	r, earlier := numbered(t)
	log := r.log()
	log[7] = clone(log[7])
	log[7].Values["b"] = strings.Replace(audittree.Text(log[7]), "refused", "allowed", 1)
	r.put(log)
	tree := r.last()
	var hashes []tlog.Hash
	for _, m := range log[:tree.Size] {
		hashes = append(hashes, tlog.LeafHash(audittree.Text(m)))
	}
	before, err := r.AuditTrees(t.Context(), r.Caller.Organization)
	must(t, err)
	forged := func(sign ed25519.PrivateKey) audittree.Trees {
		after := before.Clone()
		after.Last().First++ // it is another document
		if sign != nil {
			whole := tlog.New(0, nil)
			must(t, whole.Append(hashes...))
			root, err := whole.Root()
			must(t, err)
			c, err := checkpoint.Parse(tree.Last.Note)
			must(t, err)
			c.Root = root
			last := &after.Last().Last
			last.Note, err = c.Sign(sign)
			must(t, err)
			last.Key, err = checkpoint.VerifierKey(c.Origin, sign.Public().(ed25519.PublicKey))
			must(t, err)
			last.Number++
		}
		return after
	}
	key := r.key()
	within := history.Within(t.Context(), tree.HistoryID)
	tiles := []audittree.Tile{{Hashes: tlog.Join(hashes)}}
	must(t, r.SealAudit(within, r.Caller.Organization, before, forged(nil), tiles))
	if kinds, all := r.found(); !slices.Contains(kinds, auditor.Root) {
		t.Errorf("without a signature: %v", all)
	}
	before, err = r.AuditTrees(t.Context(), r.Caller.Organization)
	must(t, err)
	_, other, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	must(t, r.SealAudit(within, r.Caller.Organization, before, forged(other), tiles))
	report := r.verify(auditor.Options{Keys: []ed25519.PublicKey{key}})
	if !slices.ContainsFunc(report.Findings, func(f auditor.Finding) bool { return f.Kind == auditor.Signature }) {
		t.Errorf("with another key: %v", report.Findings)
	}
	if kinds, all := r.found(earlier); !slices.Contains(kinds, auditor.Fork) {
		t.Errorf("with another key, to who keeps a checkpoint: %v", all)
	}
}

// Checkpoints that are removed or altered are named.
func TestAttacksOnCheckpoints(t *testing.T) {
	t.Parallel()
	for names, attack := range map[string]func(r *record, all []audittree.Entry){
		"comes number 3: others are missing": func(r *record, all []audittree.Entry) { // one in the middle is removed
			must(r, r.raw.XDel(r.Context(), r.space().AuditCheckpoints(), all[1].ID).Err())
		},
		"last checkpoint": func(r *record, all []audittree.Entry) {
			must(r, r.raw.XDel(r.Context(), r.space().AuditCheckpoints(), all[len(all)-1].ID).Err())
		},
		"checkpoint number 3 is signed by none": func(r *record, all []audittree.Entry) {
			r.alter(all, 2, "kept-from 0", "kept-from 1")
		},
		"checkpoint number 1 of his_other": func(r *record, all []audittree.Entry) {
			r.alter(all, 0, r.last().HistoryID+`","number`, `his_other","number`)
		},
	} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			r, _ := numbered(t)
			r.seal()
			all, err := r.raw.XRange(t.Context(), r.space().AuditCheckpoints(), "-", "+").Result()
			must(t, err)
			attack(r, all)
			_, found := r.found()
			if len(found) != 1 || !strings.Contains(found[0].Message, names) {
				t.Errorf("found: %v", found)
			}
		})
	}
}

// alter writes a checkpoint of the list anew, with a checksum that is right.
func (r *record) alter(all []audittree.Entry, i int, from, to string) {
	r.Helper()
	key := r.space().AuditCheckpoints()
	must(r, r.raw.Del(r.Context(), key).Err())
	for n, m := range all {
		m = clone(m)
		if n == i {
			text := strings.ReplaceAll(audittree.Text(m), from, to)
			if text == audittree.Text(m) {
				r.Fatalf("%q is not in %s", from, text)
			}
			m.Values["b"], m.Values["e"] = text, stored.Row(key, text)
		}
		r.add(key, m)
	}
}

// Where a history is lost and another begins, another tree does: its first leaf is the
// last checkpoint of the one before. Nothing is found to be wrong, the seam is shown, and
// so is what was lost.
func TestAnotherHistory(t *testing.T) {
	t.Parallel()
	r, earlier := numbered(t)
	putBack := r.copied()
	r.write(30)
	r.seal()
	kept, lost := r.last(), r.last().Last.Note
	putBack() // Redis loses the last 30
	_, err := r.Histories.Accept(t.Context(), r.space().Partition, true, r.Now())
	must(t, err)
	r.write(5)
	r.seal()
	now := r.last()
	if now.HistoryID == kept.HistoryID || now.Seam != lost {
		t.Fatalf("the seam: %+v", now)
	}
	if before, of := auditor.Before(now.Seam), auditor.Before(audittree.Text(r.log()[0])); before != kept.HistoryID || of != "" {
		t.Errorf("it goes on from %q, and an entry from %q", before, of)
	}
	report := r.green(earlier)
	if len(report.Trees) != 2 || report.Trees[0].Before != kept.HistoryID || report.Trees[0].Lost != 32 || report.Trees[0].Checked != 7 {
		t.Errorf("%+v", report.Trees)
	}
	if kinds, all := r.found(lost); !slices.Equal(kinds, []auditor.Kind{auditor.Rollback}) {
		t.Errorf("who keeps a checkpoint of what is lost: %v", all)
	}
	log := r.log()
	log[7] = clone(log[7])
	log[7].Values["b"] = strings.Replace(audittree.Text(log[7]), "any", "all", 1)
	r.put(log)
	if kinds, all := r.found(earlier); !slices.Equal(kinds, []auditor.Kind{auditor.Changed}) || all[0].Seq != 8 {
		t.Errorf("an entry of before: %v", all)
	}
}
