package rediskv

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/history"
	"tollgate/rediskv/script"
)

// HistoryKey, a hash per partition, is what its log is known by (package history).
func HistoryKey(partition int) string { return tag(partition) + ":history" }

// SequencesOf and EventsOf are keys of an organization, for package history.
func (s *DB) SequencesOf(partition int, org string) string {
	return Space{prefix: tag(partition) + ":" + org}.Sequences()
}

// EventsOf is the organization's log.
func (s *DB) EventsOf(partition int, org string) string {
	return Space{prefix: tag(partition) + ":" + org}.Events()
}

// historian compares what Redis has with what it has acknowledged, whenever it may be
// another one: a connection is made, and the server is not the one that was compared
// last.
type historian struct {
	db  atomic.Pointer[DB]
	one sync.Mutex
	// compared are the servers, by run id and replication id; one that does not say has none.
	compared map[string]bool
	looked   sync.Map // by partition: when the record of a closed history was last read
}

// connected is what go-redis does with a connection before it is used.
func (h *historian) connected(ctx context.Context, c *redis.Conn) error {
	s := h.db.Load()
	if s == nil { // it is the first: there is nothing to compare with
		return nil
	}
	server := serverOf(ctx, c)
	h.one.Lock()
	known := server != "" && h.compared[server]
	h.one.Unlock()
	if known {
		return nil
	}
	if err := s.compareHistories(ctx, c); err != nil {
		return err
	}
	h.met(server)
	return nil
}

// beginHistories reads what the partitions' logs are known by, once their number is.
func (s *DB) beginHistories(ctx context.Context, said greeting) error {
	keys := make([]string, len(s.spaces))
	for p := range keys {
		keys[p] = HistoryKey(p)
	}
	s.Histories = history.NewBook(keys)
	err := s.Timed(ctx, "begin_history", func(ctx context.Context) error {
		return s.Histories.Begin(ctx, s.Redis, func() string { return s.NewID(tollgate.PrefixHistory) }, s.Now())
	})
	if err == nil {
		s.historian.met(said.server)
		s.historian.db.Store(s)
	}
	return err
}

func (h *historian) met(server string) {
	h.one.Lock()
	defer h.one.Unlock()
	if h.compared == nil || len(h.compared) > maxPartitions {
		h.compared = map[string]bool{}
	}
	if server != "" {
		h.compared[server] = true
	}
}

// serverOf is a server's run id and replication id. After a failover and a restart
// both are others.
func serverOf(ctx context.Context, c redis.Cmdable) string {
	pipe := c.Pipeline()
	server, replication := pipe.Info(ctx, "server"), pipe.Info(ctx, "replication")
	_, _ = pipe.Exec(ctx) // what does not say is compared
	return serverIn(server.Val(), replication.Val())
}

func serverIn(server, replication string) string {
	_, run, _ := strings.Cut(server, "\nrun_id:")
	_, id, _ := strings.Cut(replication, "\nmaster_replid:")
	run, _, _ = strings.Cut(run, "\r")
	id, _, _ = strings.Cut(id, "\r")
	if run == "" {
		return ""
	}
	return run + "/" + id
}

// compareHistories has what is missing written down, and tells of it.
func (s *DB) compareHistories(ctx context.Context, c interface {
	redis.Cmdable
	redis.Scripter
},
) error {
	found, err := s.Histories.Compare(ctx, c, s, s.Now())
	if err != nil {
		return err
	}
	for _, f := range found {
		if err := s.foundLoss(ctx, c, f); err != nil {
			return err
		}
	}
	return nil
}

// foundLoss writes a finding, and tells of it.
func (s *DB) foundLoss(ctx context.Context, c redis.Scripter, f history.Finding) error {
	next := ""
	if s.goOn {
		next = s.NewID(tollgate.PrefixHistory)
	}
	r, err := s.Histories.Found(ctx, c, f, next)
	if err != nil {
		return err
	}
	s.Cache.ForgetAll()
	s.Log.Error("Redis does not have what it acknowledged: data is lost", "partition", f.Partition, "reason", f.Loss.Reason, "organization", f.Loss.Organization,
		"acknowledged", f.Loss.Acknowledged, "found", f.Loss.Found, "missing_since", f.Loss.Since.String(), "history", r.ID, "writes_go_on", r.Open)
	if s.onLoss != nil {
		s.onLoss()
	}
	return nil
}

type historyKey struct{}

// InHistory has what a request writes written within the history that its access token
// names, and in no other.
func InHistory(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, historyKey{}, id)
}

// Within gives a script its history, if it is guarded.
func (s *DB) Within(ctx context.Context, inv *script.Invocation) {
	if !inv.Guarded {
		return
	}
	partition := partitionIn(inv.Keys[1])
	id, ok := ctx.Value(historyKey{}).(string)
	if !ok {
		id = s.Histories.Of(partition).ID
	}
	inv.Within(s.Histories.Key(partition), id)
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

// HistoryLost: it is not decided what becomes of a history that has lost something.
func HistoryLost() error {
	return &tollgate.Error{
		Code:    tollgate.CodeHistoryLost,
		Message: "Redis has lost data that was acknowledged. Nothing is written until an operator has accepted that.",
	}
}

// HistoryChanged: what the caller knows is of an earlier history.
func HistoryChanged(since tollgate.Instant) error {
	return &tollgate.Error{
		Code: tollgate.CodeHistoryChanged, Context: tollgate.ErrorContext{Since: since},
		Message: "Data was lost, and what this names is of before. Compare what you have with what is here, then begin again with a new access token or without the cursor.",
	}
}

// OutcomeHistory is what a guarded script answers in another history than its own.
const OutcomeHistory = "history"

// OtherHistory is why a script was not carried out within its history.
func (s *DB) OtherHistory(ctx context.Context, inv *script.Invocation) error {
	r, err := s.readHistory(ctx, partitionIn(inv.Keys[0]))
	id, _ := inv.Args[0].(string)
	switch {
	case err != nil:
		return err
	case !r.Open:
		return HistoryLost()
	case ctx.Value(historyKey{}) != nil && r.ID != id:
		return HistoryChanged(r.MissingFrom(id))
	}
	return ErrStale
}

// readHistory reads the record of a partition from the primary. One that is gone is a
// finding.
func (s *DB) readHistory(ctx context.Context, partition int) (r history.Record, err error) {
	err = s.Timed(ctx, "read_history", func(ctx context.Context) error {
		is, found, ok, err := s.Histories.Read(ctx, s.Redis, partition, s.Now())
		if err == nil && ok {
			s.Histories.Adopt(partition, is)
		} else if err == nil {
			err = s.foundLoss(ctx, s.Redis, found)
		}
		return err
	})
	return *s.Histories.Of(partition), err
}

// historyRetry is how often the record of a history that is closed is read again.
const historyRetry = time.Second

// HistoryFor is what an organization's log is known by.
func (s *DB) HistoryFor(ctx context.Context, org string) (history.Record, error) {
	return s.HistoryOf(ctx, partitionOf(org, len(s.spaces)))
}

// HistoryOf is what a partition's log is known by; where something was lost that is
// not accepted, as it was a moment ago.
func (s *DB) HistoryOf(ctx context.Context, p int) (history.Record, error) {
	if s.IsView() {
		s = s.primary
	}
	r := s.Histories.Of(p)
	if r.Open && r.Loss == nil || s.IsOffline() {
		return *r, nil
	}
	now := s.Clock()
	if at, ok := s.historian.looked.Load(p); ok && now.Sub(at.(time.Time)) < historyRetry {
		return *r, nil
	}
	s.historian.looked.Store(p, now)
	return s.readHistory(ctx, p)
}

// Reread is HistoryFor as it is now, on the primary.
func (s *DB) Reread(ctx context.Context, org string) (history.Record, error) {
	if s.IsView() {
		s = s.primary
	}
	if s.IsOffline() {
		return s.HistoryFor(ctx, org)
	}
	return s.readHistory(ctx, partitionOf(org, len(s.spaces)))
}

// RereadPartition is Reread for a partition.
func (s *DB) RereadPartition(ctx context.Context, partition int) (history.Record, error) {
	return s.readHistory(ctx, partition)
}

// OrganizationsIn names the organizations of a partition.
func (s *DB) OrganizationsIn(ctx context.Context, partition int) (orgs []string, err error) {
	err = s.Timed(ctx, "partition_organizations", func(ctx context.Context) error {
		orgs, err = s.Redis.SMembers(ctx, OrganizationsKey(partition)).Result()
		return err
	})
	return orgs, err
}

// Emptied says that Redis has nothing of what it had when this process started.
func (s *DB) Emptied(ctx context.Context) bool {
	if s.IsOffline() {
		return false
	}
	there := int64(1)
	_ = s.Timed(ctx, "look_for_meta", func(ctx context.Context) (err error) { // unknown: it is not empty
		there, err = s.Redis.Exists(ctx, metaKey).Result()
		if err != nil {
			there = 1
		}
		return err
	})
	return there == 0
}

// Suspect says that something was lost, where a caller of an organization misses what
// it names: because that is known, or because of evidence, if there is any: what was
// acknowledged within the named history is more than was found.
func (s *DB) Suspect(ctx context.Context, org, named, evidence string, acknowledged, found int64) error {
	if s.IsView() {
		s = s.primary
	}
	if s.IsOffline() {
		return nil
	}
	p := partitionOf(org, len(s.spaces))
	r, err := s.readHistory(ctx, p)
	if err != nil {
		return err
	}
	if r.Open && evidence != "" && r.ID == named {
		loss := history.Loss{Reason: evidence, FoundAt: s.Now(), Organization: org, Acknowledged: acknowledged, Found: found}
		err = s.Timed(ctx, "decide_history", func(ctx context.Context) error {
			return s.foundLoss(ctx, s.Redis, s.Histories.Finding(p, loss))
		})
		if err != nil {
			return err
		}
		r = *s.Histories.Of(p)
	}
	if !r.Open {
		return HistoryLost()
	}
	return nil
}

// acknowledged notes the number of an organization's last event, as Redis has told a
// script.
func (s *DB) acknowledged(org string, inv *script.Invocation, n int64) {
	if id, ok := inv.Args[0].(string); ok && inv.Guarded {
		s.Histories.Acknowledged(partitionOf(org, len(s.spaces)), id, org, n)
	}
}

// AcceptLoss has a partition go on after a loss was found. With anew a history begins
// although none was; since is from when on data may be missing then.
func (s *DB) AcceptLoss(ctx context.Context, partition int, anew bool, since tollgate.Instant) (r history.Record, err error) {
	err = s.Timed(ctx, "decide_history", func(ctx context.Context) (err error) {
		r, err = s.Histories.Accept(ctx, s.Redis, partition, s.NewID(tollgate.PrefixHistory), anew, since, s.Now())
		return err
	})
	return r, err
}
