package health

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Level is how bad a finding is.
type Level string

// The levels. Unknown: Redis does not say, as a managed one of its settings.
const (
	Fine    Level = "ok"
	Unknown Level = "unknown"
	Warning Level = "warn"
	Failure Level = "fail"
)

// Finding is what a look at Redis has shown.
type Finding struct {
	Check   string `json:"check"`            // what was looked at
	Server  string `json:"server,omitempty"` // which one, where there are several
	Level   Level  `json:"level"`
	Message string `json:"message"`      // what is so
	Advice  string `json:"do,omitempty"` // what to do about it
}

// What is looked at. Clock is judged with every heartbeat.
const (
	CheckVersion     = "version"
	CheckRole        = "role"
	CheckPersistence = "persistence"
	CheckPolicy      = "policy"
	CheckMemory      = "memory"
	CheckReplicas    = "replicas"
	CheckClock       = "clock"
)

// Filling is how full Redis is when what only adds is refused (interface §11).
const Filling = 0.85

// Judge says what is to be said of servers; wait is TOLLGATE_REDIS_WAIT_REPLICAS.
func Judge(servers []Server, wait int) (all []Finding) {
	of := make(map[string]Server, len(servers))
	for _, s := range servers {
		of[s.Address] = s
	}
	for _, address := range slices.Sorted(maps.Keys(of)) {
		s := of[address]
		if len(servers) == 1 {
			address = ""
		}
		for _, f := range []Finding{s.version(), s.role(), s.persistence(), s.policy(), s.memory(), s.copies(wait)} {
			f.Server = address
			all = append(all, f)
		}
	}
	return all
}

func (s Server) version() Finding {
	version := s.Facts["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	switch {
	case version == "":
		return Finding{Check: CheckVersion, Level: Unknown, Message: "redis does not say its version"}
	case n < 7:
		return Finding{Check: CheckVersion, Level: Failure, Message: "redis is " + version, Advice: "run 7.0 or newer"}
	}
	return Finding{Check: CheckVersion, Level: Fine, Message: "redis " + version}
}

func (s Server) role() Finding {
	switch role := s.Facts["role"]; role {
	case "":
		return Finding{Check: CheckRole, Level: Unknown, Message: "redis does not say its role"}
	case "master":
		return Finding{Check: CheckRole, Level: Fine, Message: "it takes writes"}
	default:
		return Finding{Check: CheckRole, Level: Failure, Message: "this server is a replica and takes no writes", Advice: "name the primary in TOLLGATE_REDIS_URL"}
	}
}

// persistence is of what a stop of Redis loses: the worst of it is said.
func (s Server) persistence() Finding {
	found := func(level Level, message, advice string) Finding {
		return Finding{Check: CheckPersistence, Level: level, Message: message, Advice: advice}
	}
	f := s.Facts
	switch {
	case f["aof_enabled"] == "":
		return found(Unknown, "redis does not say whether it keeps an append-only file", "make sure of appendonly yes")
	case f["aof_enabled"] != "1":
		return found(Warning, "redis keeps no append-only file: what is acknowledged is lost when it stops", "set appendonly yes")
	case f["aof_last_write_status"] == "err":
		return found(Failure, "redis cannot write its append-only file", "look at its disk and its log")
	case f["appendfsync"] == "":
		return found(Unknown, "redis does not say its appendfsync", "make sure of appendfsync always, and of aof-load-truncated no")
	case f["appendfsync"] != "always":
		// Redis answers while the background thread still writes: up to two
		// seconds of answers are only in its memory when the disk is slow.
		return found(Warning, "a crash of Redis or a power cut can lose up to two seconds of what was acknowledged (appendfsync "+f["appendfsync"]+")",
			"set appendfsync always, which loses nothing")
	case f["aof-load-truncated"] == "yes":
		return found(Warning, "after a crash Redis appends to a file that ends in half a transaction, and the next start carries that half out (aof-load-truncated yes)",
			"set aof-load-truncated no; when Redis does not start after a crash, run redis-check-aof --fix")
	}
	return found(Fine, "nothing that was acknowledged is lost when redis stops", "")
}

func (s Server) policy() Finding {
	switch policy := s.Facts["maxmemory_policy"]; policy {
	case "":
		return Finding{Check: CheckPolicy, Level: Unknown, Message: "redis does not say its maxmemory-policy", Advice: "make sure that it is noeviction"}
	case noEviction:
		return Finding{Check: CheckPolicy, Level: Fine, Message: "nothing is evicted"}
	default:
		return Finding{Check: CheckPolicy, Level: Failure, Message: "redis evicts payments when its memory is full (maxmemory-policy " + policy + ")", Advice: "set maxmemory-policy noeviction"}
	}
}

func (s Server) memory() Finding {
	found := func(level Level, message, advice string) Finding {
		return Finding{Check: CheckMemory, Level: level, Message: message, Advice: advice}
	}
	used, limited := memoryOf(s.Facts)
	text := fmt.Sprintf("%.0f %% of maxmemory is used", 100*used)
	switch {
	case s.Facts["maxmemory"] == "":
		return found(Unknown, "redis does not say how much memory it may use", "")
	case !limited:
		return found(Warning, "redis has no maxmemory: when the machine's memory is full, the system ends it", "set maxmemory below what the machine has")
	case used >= 1:
		return found(Failure, text+": redis refuses writes", "raise maxmemory")
	case used >= Filling:
		return found(Warning, text+": rules, webhook endpoints and exports are refused", "raise maxmemory")
	}
	return found(Fine, text, "")
}

func (s Server) copies(wait int) Finding {
	found := func(level Level, message, advice string) Finding {
		return Finding{Check: CheckReplicas, Level: level, Message: message, Advice: advice}
	}
	n := s.replicas()
	text := fmt.Sprintf("%d replicas", n)
	switch {
	case s.Facts["role"] == "":
		return found(Unknown, "redis does not say whether it has replicas", "")
	case n < wait:
		return found(Failure, fmt.Sprintf("%s, and every change waits for %d: all are refused", text, wait), "start replicas, or lower TOLLGATE_REDIS_WAIT_REPLICAS")
	case n > 0 && wait == 0:
		return found(Warning, text+", and no change waits for one: a failover loses what they do not have yet", "set TOLLGATE_REDIS_WAIT_REPLICAS=1")
	case wait > 0:
		return found(Fine, fmt.Sprintf("%s, and every change waits for %d", text, wait), "")
	}
	return found(Fine, text, "")
}

// clockFinding is of this machine's clock and Redis'.
func clockFinding(r reading) Finding {
	f := Finding{Check: CheckClock, Level: Fine, Message: fmt.Sprintf("the clocks are at most %.1f s apart", (r.ahead.Abs() + r.margin).Seconds())}
	if off := r.off(); off > ClockTolerance {
		f.Level, f.Message, f.Advice = Warning, fmt.Sprintf("this machine's clock is %+.1f s from that of Redis: tollgate work here lets nothing expire, closes no day and pays nothing", r.ahead.Seconds()), "set both clocks by NTP"
		if off > ClockLimit {
			f.Level = Failure
			f.Message += "; no tokens are issued and no deliveries are sent"
		}
	}
	return f
}

// judge keeps what a look has shown, and writes down what has changed.
func (s *Store) judge(servers []Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(Judge(servers, s.db.WaitReplicas), func(f Finding) bool { return f.Check != CheckClock })
}

// judgeClock does so of the clock.
func (s *Store) judgeClock() {
	s.keep([]Finding{clockFinding(s.clock)}, func(f Finding) bool { return f.Check == CheckClock })
}

// keep has findings take the place of those of the same kind.
func (s *Store) keep(now []Finding, same func(Finding) bool) {
	before := s.findings
	s.findings = nil
	level := map[[2]string]Level{}
	for _, f := range before {
		if same(f) {
			level[[2]string{f.Check, f.Server}] = f.Level
		} else {
			s.findings = append(s.findings, f)
		}
	}
	s.findings = append(s.findings, now...)
	for _, f := range now {
		was := level[[2]string{f.Check, f.Server}]
		fields := []any{"check", f.Check, "is", f.Message}
		if f.Server != "" {
			fields = append(fields, "server", f.Server)
		}
		if f.Advice != "" {
			fields = append(fields, "do", f.Advice)
		}
		switch {
		case f.Level == was:
		case f.Level == Failure:
			s.db.Log.Error("redis", fields...)
		case f.Level == Warning:
			s.db.Log.Warn("redis", fields...)
		case was == Failure || was == Warning:
			s.db.Log.Info("redis is well again", fields...)
		}
	}
}

// Findings are what the last looks have shown.
func (s *Store) Findings() []Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.findings)
}

// Worst is the level of a check, of the server that is worst. Unknown: nobody has
// looked yet.
func (s *Store) Worst(check string) Level {
	worst := -1
	order := []Level{Unknown, Fine, Warning, Failure}
	for _, f := range s.Findings() {
		if f.Check == check {
			worst = max(worst, slices.Index(order, f.Level))
		}
	}
	return order[max(0, worst)]
}
