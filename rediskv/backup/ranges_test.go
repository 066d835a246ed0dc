package backup

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Ranges are those of the embedded server, which is not asked for them.
func TestRanges(t *testing.T) {
	mini := miniredis.RunT(t)
	mini.RequireAuth("secret")
	client := redis.NewClient(&redis.Options{Addr: mini.Addr(), Password: "secret", DisableIdentity: true})
	defer client.Close()
	for i := range 20 {
		if _, err := mini.XAdd("log", fmt.Sprintf("%d-%d", 10+i/3, i%3), []string{"n", fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		if _, err := mini.ZAdd("index", float64(i/2)+0.5*float64(i%2), fmt.Sprint("member", i*7%20)); err != nil {
			t.Fatal(err)
		}
	}
	var commands [][]any
	for _, bounds := range [][2]string{{"-", "+"}, {"12", "14"}, {"(12-1", "+"}, {"-", "(13-0"}, {"12-2", "12-2"}, {"9", "9"}, {"40", "+"}, {"15", "12"}, {"(12", "13-1"}} {
		for _, count := range [][]any{nil, {"COUNT", 1}, {"COUNT", 4}} {
			commands = append(commands, append([]any{"XRANGE", "log", bounds[0], bounds[1]}, count...), append([]any{"XREVRANGE", "log", bounds[1], bounds[0]}, count...))
		}
	}
	for _, bounds := range [][2]string{{"-inf", "+inf"}, {"2", "4"}, {"(2", "(4"}, {"2.5", "2.5"}, {"5", "3"}, {"-3", "-1"}, {"9.5", "9007199254740992"}} {
		for _, options := range [][]any{nil, {"WITHSCORES"}, {"LIMIT", 0, 3}, {"WITHSCORES", "LIMIT", 0, 100}} {
			commands = append(commands, append([]any{"ZRANGEBYSCORE", "index", bounds[0], bounds[1]}, options...), append([]any{"ZREVRANGEBYSCORE", "index", bounds[1], bounds[0]}, options...))
		}
	}
	ask := func() (all []any) {
		for _, command := range commands {
			reply, err := client.Do(t.Context(), command...).Result()
			if err != nil {
				t.Fatal(command, err)
			}
			all = append(all, reply)
		}
		return all
	}
	want := ask()
	_ = client.Close()
	(&ranges{mini: mini, password: "secret"}).hook()
	client = redis.NewClient(&redis.Options{Addr: mini.Addr(), Password: "secret", DisableIdentity: true})
	client.Ping(t.Context()) // its greeting
	before := mini.Server().TotalCommands()
	for i, got := range ask() {
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%v: %v, not %v", commands[i], got, want[i])
		}
	}
	if asked := mini.Server().TotalCommands() - before; asked != 0 {
		t.Errorf("the embedded server was asked %d times", asked)
	}
	// What it has to judge or to queue it is asked for.
	if err := client.Do(t.Context(), "XRANGE", "log", "x", "+").Err(); err == nil {
		t.Error("a bound that is none was taken")
	}
	pipe := client.TxPipeline()
	some := pipe.XRange(t.Context(), "log", "-", "+")
	if _, err := pipe.Exec(t.Context()); err != nil || len(some.Val()) != 20 {
		t.Errorf("in a transaction: %v, %v", some.Val(), err)
	}
	stranger := redis.NewClient(&redis.Options{Addr: mini.Addr(), DisableIdentity: true, MaxRetries: -1})
	defer stranger.Close()
	if err := stranger.Do(t.Context(), "XRANGE", "log", "-", "+").Err(); err == nil {
		t.Error("a stranger was answered")
	}
}
