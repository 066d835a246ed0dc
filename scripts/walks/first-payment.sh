#!/bin/sh
# Someone with a clone and its README: make dev, then the commands that the README and
# the sandbox print, in another shell, until a payment is captured. Nothing of this
# repository is changed. Needs Go.
set -eu
. "$(dirname "$0")/../dev.sh"

# A clone of what is there now.
mkdir "$work/clone"
cd "$here/../.."
git ls-files -z --cached --others --exclude-standard | xargs -0 tar -cf - | tar -xf - -C "$work/clone"
cd "$work/clone"

begin=$(date +%s)
make --no-print-directory dev ADDR=127.0.0.1:0 >"$work/log" 2>&1 </dev/null &
pid=$!
await 'Ctrl-C ends the service' "$work/log"

# pastes FILE NAME: what stands in the file for another shell is run in one, and must
# leave the id of a payment that is captured in full.
pastes() {
	[ "$(grep -c '^ *\(bin/tollgate\|PAYMENT=\)' "$1")" -ge 3 ] || fail "$2 has no commands for another shell"
	printf '\nprintf %%s "$PAYMENT" >"%s"\n' "$work/payment" >>"$1"
	sh -eux "$1" >"$1.out" 2>&1 || { cat "$1.out" >&2; fail "a command of $2 fails"; }
	(
		set -a
		. .tollgate/dev.env
		set +a
		bin/tollgate payment "$(cat "$work/payment")" >"$work/said"
	)
	grep -q '^status  *captured$' "$work/said" || { cat "$1.out" "$work/said" >&2; fail "$2 leaves no captured payment"; }
	grep -q 'rule:[a-z_]*@v' "$1.out" || fail "$2 shows no ticket that cites its rules"
	echo "ok    $2: $(cat "$work/payment") captured, $(($(date +%s) - begin)) s after make dev"
}

sed -n '/^Paste into another shell/,$ s/^  //p' "$work/log" >"$work/printed"
pastes "$work/printed" 'what make dev prints'

# Of the README, the commands up to the end of the section that captures.
awk '/^```/ { fence = !fence }
	!fence && /^## / && captures { exit }
	fence && /^ *(set -a;|bin\/tollgate |PAYMENT=|curl )/ { print; if (/ capture /) captures = 1 }' README.md >"$work/readme"
pastes "$work/readme" 'the README'
