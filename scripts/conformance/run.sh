#!/bin/sh
# Runs token.mjs and openid.mjs against a `tollgate dev` on a free port of this machine.
# Needs Go, Node.js 20 and npm.
set -eu
. "$(dirname "$0")/../dev.sh"

cd "$here"
npm ci --ignore-scripts --no-audit --no-fund
start_dev
timeout 120 node token.mjs "$work/dev.env"
timeout 120 node openid.mjs "$work/dev.env"
