package rediskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"tollgate"
	"tollgate/rediskv/peer"
	"tollgate/rediskv/script"
)

// ErrTooFewReplicas: a change was made, and fewer replicas have it than must.
var ErrTooFewReplicas = errors.New("too few replicas have the change")

// unwaited are scripts whose loss harms nobody: what a worker takes and hands over it
// takes and hands over again. Deliveries go on while replicas are away.
var unwaited = []string{"take_work", "fan_out", "requeue", "forget_consumer", "record_attempts", "note_damage", "record_shadow"}

// withoutChange are outcomes of scripts that have written nothing, and give no answer of an
// earlier request.
var withoutChange = []string{"grant", "limited", "missing", "reused", "stale", "conflict", "outdated", "replayed", "toomuch", "damaged", "new", "exhausted"}

// waits says whether a script's answer waits for replicas. An earlier answer of another
// connection is given again only when they have it.
func (s *DB) waits(inv *script.Invocation) bool {
	return s.WaitReplicas > 0 && (!inv.Reads || inv.Name == scriptFindRepeated.Name) && !slices.Contains(unwaited, inv.Name)
}

// mostSends bounds how often a script is sent where its master moves, is new to the
// script, or has closed the connection. A script knows its earlier run.
const mostSends = 10

// runWaiting runs a script and has its connection wait for replicas, in one round trip.
// WAIT counts those that have all that was written before the script ended, whoever
// wrote it.
func (s *DB) runWaiting(ctx context.Context, inv *script.Invocation) ([]any, error) {
	var to redirect
	for sends := 1; ; sends++ {
		reply, had, err := s.sendWaiting(ctx, inv, to)
		if err == nil && had < int64(s.WaitReplicas) && !unchanged(reply) {
			return nil, tooFewReplicas(inv, had, s.WaitReplicas)
		}
		if err == nil || sends == mostSends || ctx.Err() != nil {
			return reply, err
		}
		var again bool
		if to, again = s.sentAgain(ctx, inv, to, err); !again {
			return nil, err
		}
		if to.address != "" {
			continue
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(min(5*time.Millisecond<<sends, 300*time.Millisecond)):
		}
	}
}

// waitsInTime is how often a call can wait in vain: of a script that a server does not have
// yet the first answer is that, behind which the connection has waited as well.
const waitsInTime = 3

// redirect is where a node of a cluster sends a script that is not for it.
type redirect struct {
	address string // empty: to whom the key belongs as far as is known
	asking  bool   // for this once
}

// sendWaiting sends both commands on one connection of the master that has the keys.
func (s *DB) sendWaiting(ctx context.Context, inv *script.Invocation, to redirect) (reply []any, had int64, err error) {
	node, err := s.masterOf(ctx, inv.Keys[0], to)
	if err != nil {
		return nil, 0, err
	}
	pipe := node.Pipeline()
	if to.asking {
		pipe.Do(ctx, "ASKING")
	}
	ran := pipe.EvalSha(ctx, inv.Hash(), inv.Keys, inv.Args...)
	waited := redis.NewIntCmd(ctx, "WAIT", s.WaitReplicas, (s.Timeout / waitsInTime).Milliseconds())
	_ = pipe.Process(ctx, waited)
	_, failed := pipe.Exec(ctx)
	if err := ran.Err(); err != nil {
		return nil, 0, err
	}
	if peer.IsReply(waited.Err()) { // it has become a replica of another meanwhile
		return nil, 0, tooFewReplicas(inv, 0, s.WaitReplicas)
	}
	if failed != nil {
		return nil, 0, failed
	}
	reply, err = ran.Slice()
	return reply, waited.Val(), err
}

// masterOf is the client of the master that has a key, or of the one that was named.
func (s *DB) masterOf(ctx context.Context, key string, to redirect) (peer.Client, error) {
	cluster, ok := s.Redis.(*redis.ClusterClient)
	if !ok {
		return s.Redis.(*redis.Client), nil
	}
	if to.address != "" {
		var named atomic.Pointer[redis.Client]
		err := cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
			if node.Options().Addr == to.address {
				named.Store(node)
			}
			return nil
		})
		if node := named.Load(); err == nil && node != nil {
			return node, nil
		}
	}
	return cluster.MasterForKey(ctx, key)
}

// sentAgain says whether a script is to be sent again after an error, and where.
func (s *DB) sentAgain(ctx context.Context, inv *script.Invocation, was redirect, err error) (to redirect, again bool) {
	text, isReply := peer.ReplyOf(err)
	word, rest, _ := strings.Cut(text, " ")
	if word == "NOSCRIPT" {
		node, err := s.masterOf(ctx, inv.Keys[0], was)
		return was, err == nil && inv.Load(ctx, node).Err() == nil
	}
	cluster, ok := s.Redis.(*redis.ClusterClient)
	if !ok { // go-redis has sent it again, if that was of use
		return to, false
	}
	switch word {
	case "MOVED", "ASK":
		_, address, _ := strings.Cut(rest, " ")
		to = redirect{address, word == "ASK"}
	case "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN":
	default:
		if isReply {
			return to, false
		}
	}
	if word != "ASK" && word != "TRYAGAIN" {
		cluster.ReloadState(ctx)
	}
	return to, true
}

func unchanged(reply []any) bool {
	outcome, _ := reply[0].(string)
	return slices.Contains(withoutChange, outcome)
}

func tooFewReplicas(inv *script.Invocation, had int64, want int) error {
	return &tollgate.Error{
		Code:    tollgate.CodeStoreUnavailable,
		Message: "The change may have been made, but it is not yet safe: too few replicas of the store have it. Repeat the request with the same Idempotency-Key; it is carried out once, and answered when it is safe.",
		Cause:   fmt.Errorf("redis %s: %w: %d of %d", inv.Name, ErrTooFewReplicas, had, want),
	}
}
