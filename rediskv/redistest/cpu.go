package redistest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// CPU is the processor time that the Redis at a URL has used since it started, in
// microseconds.
func CPU(tb testing.TB, url string) (sum float64) {
	tb.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	text, err := client.Info(tb.Context(), "cpu").Result()
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_user" && name != "used_cpu_sys" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += seconds * 1e6
	}
	return sum
}
