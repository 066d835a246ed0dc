package redistest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Commands is how often the Redis at a URL has carried out each command since it started,
// those of scripts included. What it takes to connect and to ask for that is left out.
func Commands(tb testing.TB, url string) map[string]int {
	tb.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	options.DisableIdentity = true
	options.Protocol = 2
	client := redis.NewClient(options)
	defer client.Close()
	text, err := client.Info(tb.Context(), "commandstats").Result()
	if err != nil {
		tb.Fatal(err)
	}
	counts := map[string]int{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		calls, _, _ := strings.Cut(rest, ",")
		if n, err := strconv.Atoi(calls); ok && err == nil && name != "info" && name != "hello" {
			counts[name] = n
		}
	}
	return counts
}
