package rediskv_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv"
	"tollgate/rediskv/exports"
)

// copyTransaction makes more transactions of one that is there, in the store's
// own format. KEYS: 1 all transactions; ARGV: 1 first, 2 last sequence.
const copyTransaction = `
local prefix = string.sub(KEYS[1], 1, -6)
local hash = redis.call('HGETALL', prefix .. ':txn_' .. redis.call('ZRANGE', KEYS[1], '0', '0')[1])
local f = {}
for i = 1, #hash, 2 do f[hash[i]] = hash[i + 1] end
for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local id, at = string.format('01kz%022d', n), string.format('%.0f', n * 16)
  redis.call('HSET', prefix .. ':txn_' .. id, unpack(hash))
  redis.call('HSET', prefix .. ':txn_' .. id, 'pos', at, 'ref', 'order-' .. at, 'e', '1')
  for _, index in ipairs({'', ':' .. f.ma, ':' .. f.st}) do redis.call('ZADD', KEYS[1] .. index, at, id) end
end
redis.call('HSET', prefix .. ':seq', 'event', ARGV[2])
return 1`

// many makes the organization have so many transactions.
func (f *fixture) many(t testing.TB, rows int) (raw redis.UniversalClient, prefix string) {
	t.Helper()
	if err := f.WriteLayout(t.Context(), rediskv.Apart); err != nil { // the script copies a hash
		t.Fatal(err)
	}
	f.Pay(t, eur(1000), tollgate.CaptureManual)
	raw = rawClient(t, f.URL)
	keys := scanKeys(t, raw, "*:"+f.Caller.Organization+":txns")
	if len(keys) != 1 {
		t.Fatal(keys)
	}
	for first := 1000; first < 1000+rows-1; first += 1000 {
		last := min(first+1000, 1000+rows-1) - 1
		if err := raw.Eval(t.Context(), copyTransaction, keys, first, last).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return raw, keys[0]
}

// export carries an export out as the worker does, with its sizes; a row is one
// line of JSON in every format.
func (f *fixture) export(t testing.TB, d tollgate.Dataset, format string, filter tollgate.ExportFilter) *exports.StoredExport {
	t.Helper()
	check := func(err error) { // no Helper: it is called for each row
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := f.createExport(t, d, format, filter)
	check(err)
	for p := range f.Partitions() {
		j, err := f.NextExport(t.Context(), p, "test", 0, nil)
		check(err)
		if j == nil || j.ID != e.ID {
			continue
		}
		var chunk []byte
		batches := make(chan []exports.ExportedRow, 1) // read ahead
		failed := make(chan error, 1)
		go func() {
			defer close(batches)
			for {
				rows, err := f.ExportRows(t.Context(), j)
				if err != nil {
					failed <- err
				}
				if err != nil || len(rows) == 0 {
					return
				}
				batches <- rows
			}
		}()
		for rows := range batches {
			for _, r := range rows {
				if r.Selected {
					text, err := r.JSON()
					check(err)
					chunk = append(append(chunk, text...), '\n')
				}
				check(j.Pass(r))
				if len(chunk) >= 256<<10 {
					check(f.AppendExport(t.Context(), j, chunk))
					chunk = chunk[:0]
				}
			}
		}
		select {
		case err := <-failed:
			t.Fatal(err)
		default:
		}
		check(f.AppendExport(t.Context(), j, chunk))
		check(f.finish(t, j))
		done, err := f.Export(t.Context(), f.Caller, e.ID)
		check(err)
		return done
	}
	t.Fatal("nobody has the export")
	return nil
}

// An export beside the bare loop that reads the same: the index in batches of
// 500 and each batch's hashes in one pipeline. Without a real server it says
// little.
func BenchmarkExport(b *testing.B) {
	const rows = 50_000
	f := newFixture(b)
	raw, index := f.many(b, rows)
	prefix := index[:len(index)-len("txns")]
	perRow := func(b *testing.B) {
		b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	}
	b.Run("Bare", func(b *testing.B) {
		for b.Loop() {
			read, after := 0, "-inf"
			for {
				members, err := raw.ZRangeByScoreWithScores(b.Context(), index, &redis.ZRangeBy{Min: after, Max: "+inf", Count: 500}).Result()
				if err != nil {
					b.Fatal(err)
				}
				if len(members) == 0 {
					break
				}
				pipe := raw.Pipeline()
				for _, m := range members {
					pipe.HGetAll(b.Context(), prefix+"txn_"+m.Member.(string))
				}
				if _, err := pipe.Exec(b.Context()); err != nil {
					b.Fatal(err)
				}
				read += len(members)
				after = fmt.Sprintf("(%.0f", members[len(members)-1].Score)
			}
			if read != rows {
				b.Fatal(read)
			}
		}
		perRow(b)
	})
	b.Run(tollgate.FormatNDJSON, func(b *testing.B) {
		for b.Loop() {
			if e := f.export(b, tollgate.DatasetTransactions, tollgate.FormatNDJSON, tollgate.ExportFilter{}); e.Result.Rows != rows {
				b.Fatal(e.Result)
			}
		}
		perRow(b)
	})
}
