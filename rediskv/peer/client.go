package peer

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Client is what a client of go-redis is to the packages above, whichever it is. It
// names none of go-redis' own clients, transactions or subscriptions: a package that can
// reach one of those types, even in a private field, compiles 1,500 functions of it
// again, which is most of the time that it takes to build.
type Client interface {
	redis.Cmdable
	Do(ctx context.Context, args ...any) *redis.Cmd
	Process(ctx context.Context, cmd redis.Cmder) error
	AddHook(redis.Hook)
	Close() error
}

// Watch runs a function whose transaction is refused where a key changes meanwhile
// (redis.Client.Watch).
//
//go:noinline
func Watch(ctx context.Context, c Client, do func(tx redis.Cmdable) error, keys ...string) error {
	return c.(redis.UniversalClient).Watch(ctx, func(tx *redis.Tx) error { return do(tx) }, keys...)
}
