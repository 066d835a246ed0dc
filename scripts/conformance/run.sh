#!/bin/sh
# Builds the binary, starts `tollgate dev` on a free port of this machine, and
# runs token.mjs against it. Needs Go, Node.js 20 and npm.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
pid=
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

cd "$here"
npm ci --ignore-scripts --no-audit --no-fund
(cd "$here/../.." && go build -o "$work/tollgate" ./cmd/tollgate)

"$work/tollgate" dev --addr 127.0.0.1:0 --write-env "$work/dev.env" >"$work/log" 2>&1 </dev/null &
pid=$!
for _ in $(seq 300); do
	[ -f "$work/dev.env" ] && break
	if ! kill -0 "$pid" 2>/dev/null; then
		echo "tollgate dev ended before it was ready" >&2
		exit 1
	fi
	sleep 0.1
done
if [ ! -f "$work/dev.env" ]; then
	echo "tollgate dev was not ready after 30 seconds" >&2
	exit 1
fi

timeout 120 node token.mjs "$work/dev.env"
