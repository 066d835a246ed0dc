package rediskv_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/payments"
	"tollgate/rediskv/redistest"
	"tollgate/rediskv/testkit"
)

// exported are the rows of an export, by the identifiers of their payments, in its order.
func (a *archived) exported(t *testing.T, q archive.ExportQuery) (ids []string, rows map[string]*payments.Archived, n archive.Exported, found []archive.Finding) {
	t.Helper()
	rows = map[string]*payments.Archived{}
	n, err := a.archive.Export(t.Context(), q, func(row []byte) error {
		one, err := payments.ReadArchived(row)
		if err == nil {
			ids, rows[one.ID] = append(ids, one.ID), one
		}
		return err
	}, func(f archive.Finding) { found = append(found, f) })
	must(t, err)
	if n.Payments != int64(len(ids)) || len(rows) != len(ids) {
		t.Errorf("%+v: %d rows of %d payments", n, len(ids), len(rows))
	}
	return ids, rows, n, found
}

// An export has each payment of the archive once, as it is now: the newest of several rows,
// and none of one that is in Redis again.
func TestArchiveExport(t *testing.T) {
	f := &fixture{Shop: testkit.NewShop(t, rediskv.Options{URL: redistest.URL(t), Rules: []tollgate.RuleRef{testkit.CardFee}, Partitions: 1}, testkit.NewClock(), nil)}
	a := f.archived(t, archive.Options{Rows: 7})
	random := rand.New(rand.NewPCG(18, 9))
	var all []string
	at := map[string]tollgate.Instant{}
	for range 3 {
		for range 12 {
			p := f.Pay(t, eur(int64(1000+random.IntN(1000))), tollgate.CaptureAutomatic)
			all, at[p.ID] = append(all, p.ID), p.CreatedAt
			f.Clock.Advance(time.Minute)
		}
		f.settled(t)
		f.days(120)
		a.move(t)
		must(t, f.GiveBack(t.Context(), all[random.IntN(len(all))], 100, false)) // it is moved again with the next ones
	}
	again := all[2]
	must(t, f.GiveBack(t.Context(), again, 200, false))
	f.settled(t)
	var cold, hot []string
	for _, id := range all {
		if a.hot(t, []string{id}) == 1 {
			hot = append(hot, id)
		} else {
			cold = append(cold, id)
		}
	}
	if len(hot) < 2 {
		t.Fatalf("%q are in Redis", hot)
	}
	slices.Sort(cold)
	ids, rows, n, found := a.exported(t, archive.ExportQuery{})
	if !slices.Equal(ids, cold) || n.InRedis != int64(len(hot)) || len(found) > 0 {
		t.Errorf("%d were exported of %d, %+v, %+v", len(ids), len(cold), n, found)
	}
	refunded := 0
	for id, row := range rows {
		p, _ := f.Read(t, id)
		if row.Revision != p.Revision || row.Payment.AmountRefunded != p.AmountRefunded {
			t.Errorf("%s is exported as of revision %d, and is at %d", id, row.Revision, p.Revision)
		}
		if row.Payment.AmountRefunded != eur(0) {
			refunded++
		}
	}
	if refunded == 0 {
		t.Error("none of these is in two packs")
	}
	from, until := at[cold[5]], at[cold[20]]
	ids, _, _, _ = a.exported(t, archive.ExportQuery{From: from, Until: until})
	if !slices.Equal(ids, cold[5:20]) {
		t.Errorf("from %s until %s: %q", from, until, ids)
	}
	for org, want := range map[string]int{f.Caller.Organization: len(cold), f.NewID(tollgate.PrefixOrganization): 0} {
		if ids, _, _, _ := a.exported(t, archive.ExportQuery{Organization: org}); len(ids) != want {
			t.Errorf("%s: %d", org, len(ids))
		}
	}
}

// What is moved while an export runs is given as it is then, and not as an older pack has it.
func TestArchiveExportBesideAWorker(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.settled(t)
	f.days(120)
	a.move(t)
	must(t, f.GiveBack(t.Context(), p.ID, 300, false))
	f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
	f.settled(t)
	f.days(120)
	b := &archived{fixture: f, at: a.at}
	b.open(t, archive.Options{})
	// Redis is asked for it behind the manifest: a worker moves it in between.
	c := &archived{fixture: f.with(t, rediskv.Options{}), at: a.at}
	c.Redis.AddHook(beforeExists(sync.OnceFunc(func() {
		if n := b.move(t); n != 2 {
			t.Errorf("%d were moved", n)
		}
	})))
	c.open(t, archive.Options{})
	_, rows, _, _ := c.exported(t, archive.ExportQuery{})
	if rows[p.ID] == nil || rows[p.ID].Payment.AmountRefunded != eur(300) {
		t.Errorf("exported: %+v", rows[p.ID])
	}
}

// beforeExists does something before a pipeline asks what is there.
type beforeExists func()

func (beforeExists) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (beforeExists) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (do beforeExists) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		if commands[0].Name() == "exists" {
			do()
		}
		return next(ctx, commands)
	}
}

// What cannot be read is named, and the rest is exported: not what may be older than that.
func TestArchiveExportDamaged(t *testing.T) {
	f := newFixture(t)
	a := f.archived(t, archive.Options{})
	var all []string
	for range 40 {
		p := f.Pay(t, eur(1000), tollgate.CaptureAutomatic)
		all = append(all, p.ID)
		f.Clock.Advance(time.Second)
	}
	f.settled(t)
	f.days(120)
	a.move(t)
	// The second pack has the first and the last of them, and nothing between.
	for _, id := range []string{all[0], all[39]} {
		must(t, f.GiveBack(t.Context(), id, 100, false))
	}
	f.Pay(t, eur(5000), tollgate.CaptureAutomatic)
	f.settled(t)
	f.days(120)
	a.move(t)
	lines, _, err := a.archive.Manifest(t.Context(), f.Partition(f.Caller.Organization))
	if err != nil || len(lines) != 2 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	newer := filepath.Join(pathOf(a.at), fmt.Sprintf("packs/p%02d/%s.pack", lines[1].Partition, lines[1].Payments.SHA256))
	must(t, os.Remove(newer))
	a.open(t, archive.Options{})
	ids, _, n, found := a.exported(t, archive.ExportQuery{})
	if !slices.Equal(ids, all[1:39]) || n.Unreadable != 1 || n.Unsure != 2 || len(found) != 1 || !strings.HasPrefix(found[0].File, "packs/") || !strings.Contains(found[0].Message, all[0]) {
		t.Errorf("%d were exported, %+v, %+v", len(ids), n, found)
	}
	// A frame of the older one: the rest of it is read.
	older := filepath.Join(pathOf(a.at), fmt.Sprintf("packs/p%02d/%s.pack", lines[0].Partition, lines[0].Payments.SHA256))
	text, err := os.ReadFile(older)
	must(t, err)
	text[100] ^= 1
	must(t, os.Chmod(older, 0o600))
	must(t, os.WriteFile(older, text, 0o600))
	a.open(t, archive.Options{})
	ids, _, n, found = a.exported(t, archive.ExportQuery{})
	if len(ids) == 0 || len(ids) >= 38 || n.Unreadable != 2 || len(found) != 2 {
		t.Errorf("%d were exported, %+v, %+v", len(ids), n, found)
	}
}
