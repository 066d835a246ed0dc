package redistest

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Unanswered has a client get no answer to one command, by its name in lower case.
func Unanswered(command string) redis.Hook { return unanswered{command} }

type unanswered struct{ command string }

func (unanswered) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u unanswered) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if command.Name() == u.command {
			command.SetErr(context.DeadlineExceeded)
			return command.Err()
		}
		return next(ctx, command)
	}
}

func (unanswered) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
