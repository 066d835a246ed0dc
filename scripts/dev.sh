# shellcheck shell=sh
# Read by scripts that run something against a `tollgate dev` of their own
# (conformance/run.sh, mcp/run.sh, openapi/run.sh, walks/first-payment.sh): ". ../dev.sh". It makes the directory
# $work, which goes at the end together with the sandbox, however the script
# ends. The script stands in a directory beside this file, $here.

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
pid=

# finish ends the sandbox, and shows its log when the script failed.
finish() {
	status=$?
	trap - EXIT INT TERM
	if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
		kill -TERM "$pid"
		for _ in $(seq 100); do
			kill -0 "$pid" 2>/dev/null || break
			sleep 0.1
		done
		if kill -KILL "$pid" 2>/dev/null; then
			echo "tollgate dev did not end within 10 seconds of SIGTERM" >&2
			[ "$status" -ne 0 ] || status=1
		fi
	fi
	if [ "$status" -ne 0 ] && [ -f "$work/log" ]; then
		echo "--- tollgate dev wrote:" >&2
		tail -n 50 "$work/log" >&2
	fi
	rm -rf "$work"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

# program DIR builds the binary, unless that of `make build` is up to date, and has a
# copy in the directory: it stays as it is when somebody builds another meanwhile.
program() {
	make --no-print-directory -C "$here/../.." build >/dev/null
	cp "$here/../../bin/tollgate" "$1/tollgate"
}

# start_dev starts `tollgate dev` on a free port of this machine. When it returns, the
# sandbox is ready and $work/dev.env says where.
start_dev() {
	program "$work"
	"$work/tollgate" dev --addr 127.0.0.1:0 --write-env "$work/dev.env" >"$work/log" 2>&1 </dev/null &
	pid=$!
	await . "$work/dev.env"
}

# await PATTERN FILE waits until a file of the sandbox, which is process $pid, matches.
# A machine that has built nothing yet builds for minutes.
await() {
	for _ in $(seq 6000); do
		[ -f "$2" ] && grep -q -e "$1" "$2" && return
		kill -0 "$pid" 2>/dev/null || fail "tollgate dev ended before it was ready"
		sleep 0.1
	done
	fail "tollgate dev was not ready after ten minutes"
}

fail() {
	echo "FAIL  $*" >&2
	exit 1
}
