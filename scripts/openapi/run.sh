#!/bin/sh
# Holds handlers/openapi.json to linters and generators that others wrote:
# redocly and spectral find nothing, openapi-typescript and oapi-codegen (with
# its default settings) make clients that compile, and both pay against a
# `tollgate dev` on a free port of this machine; Postman's runner plays the
# collection that is made of the document against it.
# Needs Go, Node.js 20 and npm.
set -eu

. "$(dirname "$0")/../dev.sh"

cd "$here"
export REDOCLY_TELEMETRY=off
npm ci --ignore-scripts --no-audit --no-fund
npx redocly lint --max-problems 1000 ../../handlers/openapi.json >"$work/redocly" 2>&1 || {
	cat "$work/redocly"
	exit 1
}
if grep -q 'You have [0-9]* warning' "$work/redocly"; then
	cat "$work/redocly"
	exit 1
fi
echo 'ok    redocly'
npx spectral lint --ruleset .spectral.yaml --fail-severity warn ../../handlers/openapi.json
echo 'ok    spectral'
npx openapi-typescript ../../handlers/openapi.json -o api.d.ts
npx tsc -p tsconfig.json --outDir dist
echo 'ok    openapi-typescript, tsc --strict'

cd goclient
go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2 -package main ../../../handlers/openapi.json >api.go
go build -o "$work/goclient" .
go mod tidy -diff
echo 'ok    oapi-codegen, go build'

cd "$here"
start_dev
set -a
. "$work/dev.env"
set +a
timeout 120 node dist/pay.js
timeout 120 "$work/goclient"
timeout 120 node collection.mjs "$TOLLGATE_URL"
