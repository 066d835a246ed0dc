package service

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"tollgate/rediskv/health"
)

func TestJudge(t *testing.T) {
	safe := health.Guarantees{Version: "7.0.15", Mode: "standalone", AOF: true, Fsync: "always", EvictionPolicy: "noeviction", Masters: 1}
	for _, c := range []struct {
		name    string
		change  func(*health.Guarantees)
		log     string
		refused string
	}{
		{"safe", func(*health.Guarantees) {}, `"msg":"redis","version":"7.0.15","mode":"standalone","aof":true`, ""},
		{"evicts", func(g *health.Guarantees) { g.EvictionPolicy = "allkeys-lru" }, `"msg":"redis"`, "allkeys-lru"},
		{"evicts some", func(g *health.Guarantees) { g.EvictionPolicy = "volatile-ttl" }, `"msg":"redis"`, "volatile-ttl"},
	} {
		var log bytes.Buffer
		g := safe
		c.change(&g)
		err := judge(g, 64, slog.New(slog.NewJSONHandler(&log, nil)))
		if (err == nil) != (c.refused == "") || (err != nil && !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !regexp.MustCompile(c.log).MatchString(log.String()) {
			t.Errorf("%s: log %s", c.name, &log)
		}
	}
}
