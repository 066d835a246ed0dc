#!/bin/sh
# Someone with agents.md: the commands that the page prints give an agent a budget, and a
# client that others wrote pays within it, is refused beyond it, and pays what the refusal
# says would be allowed. Needs Go, redis-server, Node.js and npm.
set -eu
. "$(dirname "$0")/../dev.sh"

(cd "$here/../mcp" && npm ci --ignore-scripts --no-audit --no-fund --omit=dev --omit=optional >"$work/npm" 2>&1) || { cat "$work/npm" >&2; fail "npm ci"; }
mkdir "$work/bin" "$work/.tollgate"
program "$work/bin"
cd "$work"

begin=$(date +%s)
# A free port of this machine, for as long as nobody else takes it.
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
redis-server --port "$port" --bind 127.0.0.1 --dir "$work" --save '' --daemonize yes --pidfile "$work/redis.pid" --logfile "$work/redis.log"
trap 'redis-cli -p "$port" shutdown nosave >/dev/null 2>&1 || true; finish' EXIT
bin/tollgate dev --redis "redis://127.0.0.1:$port" --addr 127.0.0.1:0 --write-env .tollgate/dev.env >"$work/log" 2>&1 </dev/null &
pid=$!
await . .tollgate/dev.env

# The commands of the section, with this Redis.
awk '/^## / { inside = /^## A budget/ } /^```/ { block = inside && /^```sh$/; next } block' "$here/../../handlers/docs/agents.md" |
	sed "s/127\.0\.0\.1:6379/127.0.0.1:$port/" >page.sh
[ "$(grep -c '^bin/tollgate \|^PUBLIC=\|^cat ' page.sh)" -eq 4 ] || { cat page.sh >&2; fail "agents.md has other commands"; }
sh -eu page.sh >page.out 2>&1 || { cat page.out >&2; fail "a command of agents.md fails"; }
timeout 60 node "$here/../mcp/budget.mjs" mcp.json || fail "the agent cannot pay within its budget"
echo "ok    an agent pays within its budget, $(($(date +%s) - begin)) s after the start"
