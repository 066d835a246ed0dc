package rediskv

import (
	"context"

	"tollgate/rediskv/history"
	"tollgate/rediskv/script"
)

// HistoryKey, a hash per partition, is what its log is known by (package history).
func HistoryKey(partition int) string { return tag(partition) + ":history" }

// LogOf are an organization's sequences and its log, for package history.
func (s *DB) LogOf(partition int, org string) (sequences, events string) {
	k := Space{prefix: tag(partition) + ":" + org}
	return k.Sequences(), k.Events()
}

// historyKeys are those of all partitions.
func historyKeys(partitions int) []string {
	keys := make([]string, partitions)
	for p := range keys {
		keys[p] = HistoryKey(p)
	}
	return keys
}

// Lost tells of a loss that this process has found.
func (s *DB) Lost(f history.Finding, r history.Record) {
	s.Cache.ForgetAll()
	since := "its beginning, or not known"
	if f.Loss.Since != 0 {
		since = f.Loss.Since.String()
	}
	s.Log.Error("Redis does not have what it acknowledged: data is lost", "partition", f.Partition, "reason", f.Loss.Reason, "organization", f.Loss.Organization,
		"acknowledged", f.Loss.Acknowledged, "found", f.Loss.Found, "missing_since", since, "history", r.ID, "writes_go_on", r.Open)
	if s.onLoss != nil {
		s.onLoss()
	}
}

// OtherHistory is why a script was not carried out within its history.
func (s *DB) OtherHistory(ctx context.Context, inv *script.Invocation) error {
	if err := s.Histories.Other(ctx, inv); err != nil {
		return err
	}
	return ErrStale
}

// HistoryFor is what an organization's log is known by.
func (s *DB) HistoryFor(ctx context.Context, org string) (history.Record, error) {
	return s.Histories.Current(ctx, s.Partition(org))
}

// RereadHistory is HistoryFor as it is now, on the primary.
func (s *DB) RereadHistory(ctx context.Context, org string) (history.Record, error) {
	return s.Histories.Reread(ctx, s.Partition(org))
}

// SuspectHistory is history.Watch.Suspect for an organization.
func (s *DB) SuspectHistory(ctx context.Context, org, named, evidence string, acknowledged, found int64) error {
	return s.Histories.Suspect(ctx, s.Partition(org), org, named, evidence, acknowledged, found)
}

// OrganizationsIn names the organizations of a partition.
func (s *DB) OrganizationsIn(ctx context.Context, partition int) (orgs []string, err error) {
	err = s.Timed(ctx, "partition_organizations", func(ctx context.Context) error {
		orgs, err = s.Redis.SMembers(ctx, OrganizationsKey(partition)).Result()
		return err
	})
	return orgs, err
}

// Emptied says that Redis may have nothing of what it had when this process started: it
// has nothing at all, or a loss was found that nobody has accepted. Another process may
// have started in it meanwhile; it has begun a record then, of a history that is unknown.
func (s *DB) Emptied(ctx context.Context) (is bool, err error) {
	if s.IsOffline() {
		return false, nil
	}
	var there int64
	err = s.Timed(ctx, "look_for_meta", func(ctx context.Context) (err error) {
		there, err = s.Redis.Exists(ctx, MetaKey).Result()
		return err
	})
	if err != nil || there == 0 {
		return true, err
	}
	_, err = s.Histories.Reread(ctx, 0)
	return s.Histories.Undecided(), err
}

// acknowledged notes the number of an organization's last event, as Redis has told a
// script.
func (s *DB) acknowledged(org string, inv *script.Invocation, n int64) {
	if id, ok := inv.Args[0].(string); ok && inv.Guarded {
		s.Histories.Acknowledged(s.Partition(org), id, org, n)
	}
}
