#!/bin/sh
# against.sh BASE [BENCH] [TIMES] [ROUNDS]: benchmarks of handlers at a commit and as they
# are here, in turn, so that what else the machine does meets both. For each benchmark it
# prints the medians at BASE, those of here, and here / BASE. BASE gets the benchmarks of
# here, and has to compile with them.
set -eu
base=$1 bench=${2:-CPU} times=${3:-3000} rounds=${4:-5}
cd "$(dirname "$0")/.."
here=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/base"
git archive "$base" | tar -x -C "$dir/base"
cp handlers/bench_test.go handlers/bench_cpu_test.go handlers/generator_test.go "$dir/base/handlers/"
(cd "$dir/base" && go test -c -o "$dir/base.test" ./handlers)
go test -c -o "$dir/here.test" ./handlers
run() { # which, directory
	(cd "$2/handlers" && "$dir/$1.test" -test.run '^$' -test.bench "$bench" -test.benchtime "${times}x" -test.benchmem) | sed "s/^/$1 /"
}
for round in $(seq "$rounds"); do
	run base "$dir/base"
	run here "$here"
done | awk '
	/ FAIL|--- / { print; failed = 1 }
	$2 ~ /^Benchmark/ && $5 == "ns/op" {
		name = $2
		sub(/-[0-9]+$/, "", name)
		for (i = 4; i < NF; i += 2) {
			series = name " " $(i + 1)
			if (!(series in seen)) { seen[series]; order[++count] = series }
			values[series, $1, ++n[series, $1]] = $i
		}
	}
	function median(series, which,   i, j, m, sorted, v) {
		m = n[series, which]
		for (i = 1; i <= m; i++) {
			v = values[series, which, i] + 0
			for (j = i - 1; j > 0 && sorted[j] > v; j--) sorted[j + 1] = sorted[j]
			sorted[j + 1] = v
		}
		return m % 2 ? sorted[(m + 1) / 2] : (sorted[m / 2] + sorted[m / 2 + 1]) / 2
	}
	END {
		printf "%-36s %-14s %12s %12s %8s\n", "BENCHMARK", "UNIT", "BASE", "HERE", "RATIO"
		for (i = 1; i <= count; i++) {
			split(order[i], part, " ")
			was = median(order[i], "base"); is = median(order[i], "here")
			printf "%-36s %-14s %12.1f %12.1f %8.3f\n", part[1], part[2], was, is, is / (was ? was : 1)
		}
		exit failed
	}'
