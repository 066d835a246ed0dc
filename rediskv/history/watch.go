package history

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/script"
)

// Host is whose histories are watched.
type Host interface {
	Space
	Now() tollgate.Instant
	NewID(prefix string) string
	// Timed bounds a call to Redis, and makes its error one for the caller.
	Timed(ctx context.Context, operation string, do func(context.Context) error) error
	// Lost is told of a loss that is found here, with the record that says so.
	Lost(Finding, Record)
}

// Watch compares what Redis has with what it has acknowledged, whenever it may be
// another one: a connection is made, and the server is not one that was compared
// before.
type Watch struct {
	*Book
	// GoOn has a history begin at once where something was lost.
	GoOn bool

	running atomic.Pointer[running]
	one     sync.Mutex
	// compared are the servers, by run id and replication id; one that does not say has
	// none.
	compared map[string]bool
	counting sync.WaitGroup
	told     sync.Map // by partition: the loss that was told of last
	looked   sync.Map // by partition: when the record of a closed history was last read
}

type running struct {
	host   Host
	client peer.Client
}

const (
	// retry is how often the record of a history that is closed is read again, in
	// milliseconds.
	retry = tollgate.Instant(time.Second / time.Millisecond)
	// servers is of how many it is remembered that they were compared.
	servers = 4096
)

// Begin has the partitions whose records are at keys watched from now on. server is
// the one that was asked, as peer.Facts.Run has it. first queues what it has to be sent
// before; it may be nil.
func (w *Watch) Begin(ctx context.Context, host Host, client peer.Client, keys []string, server string, first func(redis.Pipeliner)) error {
	w.Book = NewBook(keys)
	err := host.Timed(ctx, "begin_history", func(ctx context.Context) error {
		return w.begin(ctx, client, first, func() string { return host.NewID(tollgate.PrefixHistory) }, true, host.Now())
	})
	if err == nil {
		w.follow(host, client, server)
	}
	return err
}

// Ask queues on a pipeline the records at keys. What it returns reads them, and says
// whether all are there: then Follow is enough, and nothing has to be begun.
func (w *Watch) Ask(ctx context.Context, pipe redis.Pipeliner, keys []string) (all func() bool) {
	w.Book = NewBook(keys)
	answers := make([]*redis.MapStringStringCmd, len(keys))
	for p, key := range keys {
		answers[p] = pipe.HGetAll(ctx, key)
	}
	return func() bool {
		for p, answer := range answers {
			r, ok := RecordOf(keys[p], answer.Val())
			if !ok {
				return false
			}
			w.Adopt(p, r)
		}
		return true
	}
}

// Follow has what is known watched from now on, and this process counted: nobody has to
// wait for that.
func (w *Watch) Follow(ctx context.Context, host Host, client peer.Client, server string) {
	w.follow(host, client, server)
	call := host.NewID(tollgate.PrefixHistory)
	w.counting.Go(func() {
		// One that is not counted is a clue less of what is lost.
		_ = host.Timed(context.WithoutCancel(ctx), "begin_history", func(ctx context.Context) error {
			return w.begin(ctx, client, nil, func() string { return call }, false, host.Now())
		})
	})
}

// Settled waits until this process is counted, or has failed to be.
func (w *Watch) Settled() { w.counting.Wait() }

func (w *Watch) follow(host Host, client peer.Client, server string) {
	w.met(server)
	w.running.Store(&running{host, client})
}

// Connected is what go-redis does with a connection before it is used. One to a replica
// of a cluster is not: it stays when that becomes the master, and nothing has been
// compared on it.
func (w *Watch) Connected(ctx context.Context, c redis.Cmdable) error {
	run := w.running.Load()
	if run == nil { // it is the first: there is nothing to compare with
		return nil
	}
	facts := peer.Asked(ctx, c)
	if _, cluster := run.client.(*redis.ClusterClient); cluster && facts["role"] == "slave" {
		return errReplica
	}
	return w.compareRun(ctx, c, facts.Run())
}

var errReplica = errors.New("it is a replica of a cluster")

// Look is Connected for a server that is used already. One that has been a replica
// meanwhile is another run, and the connections to it are the same. Of one that does not
// say which run it is, nothing is known.
func (w *Watch) Look(ctx context.Context, c redis.Cmdable) error {
	server := peer.Asked(ctx, c).Run()
	if server == "" {
		return nil
	}
	return w.compareRun(ctx, c, server)
}

// compareRun compares a run of a server once.
func (w *Watch) compareRun(ctx context.Context, c redis.Cmdable, server string) error {
	w.one.Lock()
	known := server != "" && w.compared[server]
	w.one.Unlock()
	if known {
		return nil
	}
	if err := w.compareAll(ctx, c); err != nil {
		return err
	}
	w.met(server)
	return nil
}

func (w *Watch) met(server string) {
	w.one.Lock()
	defer w.one.Unlock()
	if w.compared == nil || len(w.compared) > servers {
		w.compared = map[string]bool{}
	}
	if server != "" {
		w.compared[server] = true
	}
}

// compareAll has what is missing written down, and tells of it.
func (w *Watch) compareAll(ctx context.Context, c redis.Cmdable) error {
	run := w.running.Load()
	_, cluster := run.client.(*redis.ClusterClient)
	found, err := w.Compare(ctx, c, run.host, cluster, run.host.Now())
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := w.found(ctx, c, f); err != nil {
			return err
		}
	}
	w.tellUnsure()
	return nil
}

// found writes a finding, and tells of it.
func (w *Watch) found(ctx context.Context, c redis.Scripter, f Finding) error {
	host, next := w.running.Load().host, ""
	if w.GoOn {
		next = host.NewID(tollgate.PrefixHistory)
	}
	r, err := w.write(ctx, c, f, next)
	if err != nil {
		w.unsure.Store(f.Partition, f)
		return err
	}
	w.unsure.Delete(f.Partition)
	w.tell(f, r)
	return nil
}

// tell tells of a loss, once: several connections may find the same.
func (w *Watch) tell(f Finding, r Record) {
	if before, _ := w.told.Swap(f.Partition, r.loss); before != r.loss {
		w.running.Load().host.Lost(f, r)
	}
}

// tellUnsure tells of findings whose writing was not answered, and that are there. They
// are as good as another process' now, which would tell of its own.
func (w *Watch) tellUnsure() {
	w.unsure.Range(func(partition, f any) bool {
		if r := w.Of(partition.(int)); r.Loss != nil {
			w.unsure.Delete(partition)
			w.tell(f.(Finding), *r)
		}
		return true
	})
}

type withinKey struct{}

// Within has what a request writes written within the history that its access token
// names, and in no other.
func Within(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, withinKey{}, id)
}

// Guard gives a script its history, if it is guarded.
func (w *Watch) Guard(ctx context.Context, inv *script.Invocation) {
	if !inv.Guarded {
		return
	}
	partition := partitionIn(inv.Keys[1])
	id, ok := ctx.Value(withinKey{}).(string)
	if !ok {
		id = w.Of(partition).ID
	}
	inv.Within(w.Key(partition), id)
}

// partitionIn reads the tag that a key begins with.
func partitionIn(key string) (partition int) {
	for _, c := range key[len("{p"):] {
		if c < '0' || c > '9' {
			break
		}
		partition = partition*10 + int(c-'0')
	}
	return partition
}

// Lost: it is not decided what becomes of a history that has lost something.
func Lost() error {
	return &tollgate.Error{
		Code:    tollgate.CodeHistoryLost,
		Message: "Redis has lost data that was acknowledged. Nothing is written until an operator has accepted that.",
	}
}

// Changed: what the caller knows is of an earlier history.
func Changed(since tollgate.Instant) error {
	return &tollgate.Error{
		Code: tollgate.CodeHistoryChanged, Context: tollgate.ErrorContext{Since: since},
		Message: "Data was lost, and what this names is of before. Compare what you have with what is here, then begin again with a new access token or without the cursor.",
	}
}

// Outcome is what a guarded script answers in another history than its own.
const Outcome = "history"

// Other is why a script was not carried out within its history; nil: it knows only
// another one than this process did, and can be run again.
func (w *Watch) Other(ctx context.Context, inv *script.Invocation) error {
	r, err := w.Reread(ctx, partitionIn(inv.Keys[0]))
	id, _ := inv.Args[0].(string)
	switch {
	case err != nil:
		return err
	case !r.Open:
		return Lost()
	case ctx.Value(withinKey{}) != nil && r.ID != id:
		return Changed(r.MissingFrom(id))
	}
	return nil
}

// Reread reads the record of a partition. One that is gone is a finding.
func (w *Watch) Reread(ctx context.Context, partition int) (Record, error) {
	run := w.running.Load()
	if run == nil { // Redis is away
		return *w.Of(partition), nil
	}
	err := run.host.Timed(ctx, "read_history", func(ctx context.Context) error {
		is, found, ok, err := w.Read(ctx, run.client, partition, run.host.Now())
		if err == nil && ok {
			w.Adopt(partition, is)
			w.tellUnsure()
		} else if err == nil {
			err = w.found(ctx, run.client, found)
		}
		return err
	})
	return *w.Of(partition), err
}

// Current is what a partition's log is known by; where something was lost that is not
// accepted, as it was a moment ago.
func (w *Watch) Current(ctx context.Context, partition int) (Record, error) {
	r, run := w.Of(partition), w.running.Load()
	if run == nil || r.Open && r.Loss == nil {
		return *r, nil
	}
	now := run.host.Now()
	if at, ok := w.looked.Load(partition); ok && now-at.(tollgate.Instant) < retry {
		return *r, nil
	}
	w.looked.Store(partition, now)
	return w.Reread(ctx, partition)
}

// Suspect says that something was lost, where a caller of an organization misses what
// it names: because that is known, or because of evidence, if there is any: what was
// acknowledged within the named history is more than was found. Where writes go on, in
// another history than the named one, it says that.
func (w *Watch) Suspect(ctx context.Context, partition int, org, named, evidence string, acknowledged, found int64) error {
	run := w.running.Load()
	if run == nil {
		return nil
	}
	r, err := w.Reread(ctx, partition)
	if err != nil {
		return err
	}
	if r.Open && evidence != "" && r.ID == named {
		loss := Loss{Reason: evidence, FoundAt: run.host.Now(), Organization: org, Acknowledged: acknowledged, Found: found}
		err = run.host.Timed(ctx, scriptDecide.Name, func(ctx context.Context) error {
			_, events := run.host.LogOf(partition, org)
			last := run.client.XRevRangeN(ctx, events, "+", "-", 1)
			if err := last.Err(); err != nil && !peer.IsReply(err) {
				return err
			}
			loss.Since = since([]*redis.XMessageSliceCmd{last})
			return w.found(ctx, run.client, w.finding(partition, loss))
		})
		if err != nil {
			return err
		}
		r = *w.Of(partition)
	}
	switch {
	case !r.Open:
		return Lost()
	case evidence != "" && r.ID != named && r.hasEnded(named):
		return Changed(r.MissingFrom(named))
	}
	return nil
}

// Accept has a partition go on after a loss was found. With anew a history begins
// although none was; since is from when on data may be missing then.
func (w *Watch) Accept(ctx context.Context, partition int, anew bool, since tollgate.Instant) (r Record, err error) {
	run := w.running.Load()
	err = run.host.Timed(ctx, scriptDecide.Name, func(ctx context.Context) (err error) {
		r, err = w.accept(ctx, run.client, partition, run.host.NewID(tollgate.PrefixHistory), anew, since, run.host.Now())
		return err
	})
	return r, err
}
