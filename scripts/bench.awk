# Reads what `go test -bench` prints, passes it on, and ends with a table of
# ratios: only these can be compared between machines. A group is the
# sub-benchmarks of one benchmark, or a benchmark and those whose names begin
# with its name (QuoteRules, QuoteRulesNative); the fastest of a group is 1. What
# reports the processor time of processes (service-µs/op) has a ratio of their sum, too.
{ print }

/^(--- )?FAIL/ { failed = 1 }

/^pkg: / { pkg = $2; sub(/^[^\/]*\/?/, "", pkg); if (pkg == "") pkg = "." }

/^Benchmark/ && $4 == "ns/op" {
	name = $1
	sub(/^Benchmark/, "", name)
	sub(/-[0-9]+$/, "", name)
	names[++count] = name
	packages[count] = pkg
	times[count] = $3
	allocs[count] = "?"
	for (i = 5; i <= NF; i++) {
		if ($i == "allocs/op") allocs[count] = $(i - 1)
		if ($i ~ /-µs\/op$/) cpus[count] += $(i - 1)
	}
}

function family(i,   base, j) {
	base = names[i]
	if (!sub(/\/.*/, "/", base))
		for (j = 1; j <= count; j++)
			if (packages[j] == packages[i] && index(base, names[j]) == 1) base = names[j]
	return packages[i] " " base
}

END {
	if (failed || count == 0) exit 1
	for (i = 1; i <= count; i++) {
		f = family(i)
		if (!(f in fastest) || times[i] < fastest[f]) fastest[f] = times[i]
		if (cpus[i] > 0 && (!(f in cheapest) || cpus[i] < cheapest[f])) cheapest[f] = cpus[i]
	}
	printf "\n%-16s %-40s %14s %10s %9s %10s %9s\n", "PACKAGE", "BENCHMARK", "NS/OP", "ALLOCS/OP", "RATIO", "CPU-US/OP", "CPU"
	for (i = 1; i <= count; i++) {
		f = family(i)
		cpu = cpus[i] > 0 ? sprintf(" %10.1f %8.2fx", cpus[i], cpus[i] / cheapest[f]) : ""
		printf "%-16s %-40s %14.1f %10s %8.2fx%s\n", packages[i], names[i], times[i], allocs[i], times[i] / (fastest[f] > 0 ? fastest[f] : 1), cpu
	}
}
