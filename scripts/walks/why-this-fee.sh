#!/bin/sh
# A finance person: "why is this fee 1.39?" Two clicks in the console of `make dev`, from
# the list of payments to the rule, which the browser runs again and gets the same. Needs
# Go and chromium.
set -eu
cd "$(dirname "$0")/../.."
make --no-print-directory build >/dev/null
cd scripts/console
said=$(go test -count=1 -v -run '^TestWhyIsThisFee$' .) || { echo "$said" >&2; exit 1; }
echo "$said" | grep -e '^--- PASS: TestWhyIsThisFee ' || { echo "FAIL  nobody asked" >&2; exit 1; }
