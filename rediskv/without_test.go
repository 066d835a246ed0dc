package rediskv_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"tollgate"
	"tollgate/rediskv/archive"
	"tollgate/rediskv/archive/logs"
	"tollgate/rediskv/record"
)

// without are the keys that hold no record with a checksum, and why they need none. A
// key is by what follows its partition, and its organization as org_X.
var without = []struct{ key, why string }{
	// Of everything.
	{`tollgate:meta`, "the number of partitions is compared at each start, and the seal is a MAC itself"},
	{`tollgate:sandbox`, "of the sandbox alone"},
	{`tollgate:client:cli_\w+`, "says where a client is; the client there is a record, and has another key"},
	{`tollgate:denied:.*`, "counts refusals for metrics, for 30 days"},
	{`tollgate:heartbeat|heartbeat`, "the clock of Redis' primary; it is written again each second"},
	{`tollgate:instances`, "names instances, each of which is a record of its own that expires"},
	{`tollgate:secrets`, "what living processes say of their secret keys, again and again"},
	// Of a partition: queues, which check compares with the objects both ways, and by
	// which an object falls due that is then read itself. The agenda reads these and has
	// no keys of its own.
	{`due|ready|activations|jobs|exports|cutoffs|payouts|dispatch`, "a queue; check compares it with the objects, both ways"},
	{`organizations`, "a list; check compares it with the organizations, both ways"},
	{`changed`, "tells instances to read again; each reads everything again at times"},
	{`archive(:logs)?`, "each line of the manifest has a checksum, and how many there are is compared with their number"},
	{`archive:erased`, "counts erasures, so that who has read before them is too late; any change of it does that"},
	{`check|checking`, "how far a walk of check is; any other place is the beginning, and it expires"},
	// Of an organization.
	{`org_X:seq`, "counters; check compares them with the ends of the logs"},
	{`org_X:txns(:.*)?`, "an index; check compares it with the transactions, both ways"},
	{`org_X:postings:.*`, "derived from the transactions; check looks for each of them there, and they can be made again"},
	{`org_X:parts:\w+`, "each record in it has its own, which a check compares"},
	{`org_X:pay_\w+:txns|org_X:po_\w+:txn|org_X:ma_\w+:pay:.*`, "an index; check compares it with the transactions, both ways"},
	{`org_X:ma_\w+:(payable|refunds)`, "sums of scripts; check adds them up again, and so does each payout before it is paid"},
	{`org_X:use:.*`, "counters of scripts; check adds them up again"},
	{`org_X:(events|audit):segments`, "names segments of a log; check compares it with them, both ways"},
	{`org_X:(events|audit):rewritten`, "counts how often entries were written anew, so that who has read before is too late; any change of it does that"},
	{`org_X:erasing`, "which payments are being erased; it goes with the run that does it, or with the next one"},
	{`org_X:webhooks`, "what the fan-out knows of the endpoints; check compares it with them"},
	{`org_X:we_\w+:(queue|leases|targets|open|dlv)`, "queues and a list; check compares them with the deliveries, both ways"},
	{`org_X:(exports(:.*)?)`, "lists of exports and the room that they take; check compares them with the exports"},
	{`org_X:exp_\w+:(ends|c:\d+)`, "an export's file; it has a SHA-256 of its own"},
	{`org_X:module:[0-9a-f]+`, "a module; its SHA-256 is its name"},
	{`org_X:grants|org_X:clients|org_X:perimeters|org_X:rules|org_X:shadows|org_X:\w+:activations`, "names what is there; each is a record of its own"},
	{`org_X:ending`, "whose tokens are still to be ended; it goes with the run that does it"},
	{`org_X:shd_\w+:totals`, "counts of scripts, of prices that nobody pays"},
	{`org_X:archive|org_X:archive:returned`, "which payments are to be moved next; what is in Redis and what is in a pack can both be read"},
	{`org_X:damaged`, "of what has been told, so that it is told once"},
	{`org_X:po_\w+:paying`, "who asks for a payout now; it expires with the lease, and the payout itself has one"},
	{`org_X:rate:.*`, "a bucket of a rate limit; one that cannot be read is full, and it expires when it is"},
	{`org_X:op:.*|org_X:jti:.*|history:op:.*`, "the mark of an operation or an assertion; it expires within minutes"},
}

// TestKeysAreRecordsOrSayWhyNot: a key that is neither a record with a checksum nor
// in the table has been forgotten.
func TestKeysAreRecordsOrSayWhyNot(t *testing.T) {
	f := oneOfEach(t)
	f.cut(t)
	a := f.archived(t, archive.Options{})
	must(t, f.Move(t.Context(), f.Pay(t, eur(100), tollgate.CaptureManual).ID, tollgate.TriggerCancel))
	f.days(120)
	if a.move(t) == 0 {
		t.Error("nothing was moved to the archive")
	}
	f.packing(t, logs.Options{}, directory(t))
	if _, err := f.TrimEvents(t.Context(), f.partition(t), tollgate.At(time.Now().Add(time.Hour))); err != nil {
		t.Error(err)
	}
	raw, _ := f.raw(t)
	partition := regexp.MustCompile(`^\{p\d+\}:`)
	for _, key := range scanKeys(t, raw, "*") {
		kind := typeOf(t, raw, key)
		name := strings.ReplaceAll(partition.ReplaceAllString(key, ""), f.Caller.Organization, "org_X")
		is := record.KindOf(key) != nil || regexp.MustCompile(`:(events|audit)(:\d+-\d+)?$`).MatchString(name) || strings.HasSuffix(name, ":divergences") || strings.HasSuffix(name, ":tree:checkpoints") ||
			strings.HasSuffix(name, ":att") || strings.Contains(name, ":idem:")
		if kind == "string" && !is {
			text, err := raw.Get(t.Context(), key).Result()
			must(t, err)
			is = strings.HasPrefix(text, `{"$":"1;;`) || strings.HasPrefix(text, "1;b;")
		}
		why := ""
		for _, w := range without {
			if regexp.MustCompile(`^(?:` + w.key + `)$`).MatchString(name) {
				why = w.why
			}
		}
		switch {
		case is && why != "":
			t.Errorf("%s is a record, and the table says %q", key, why)
		case !is && why == "":
			t.Errorf("%s has no checksum, and nothing says why", key)
		}
	}
}
