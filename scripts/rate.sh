#!/bin/sh
# Creates payments on a running Tollgate at a fixed rate and prints the
# percentiles of the answers' latency.
#
#   scripts/rate.sh ENVFILE|URL RATE DURATION
#   scripts/rate.sh .tollgate/dev.env 200 30s
#
# ENVFILE is what `tollgate dev --write-env FILE` writes. With a URL the rest
# (TOLLGATE_TOKEN, TOLLGATE_MERCHANT_ACCOUNT) comes from the environment. RATE
# is payments a second, DURATION at most 9m because a token lives ten minutes.
# Loopback only: it makes payments, as many as you say.
#
# It ends with 1 when an answer was not 201 or when the rate was not reached: a
# server that is too slow for the rate also slows the generator down, and the
# percentiles of such a run would flatter it.
set -eu

if [ $# -ne 3 ]; then
	sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "$0" >&2
	exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
case $1 in
http://* | https://*)
	TOLLGATE_URL=$1
	;;
*)
	[ -r "$1" ] || {
		echo "$1: no such file; start \`make dev\` first" >&2
		exit 2
	}
	file=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
	set -a
	# shellcheck disable=SC1090 # the user's file
	. "$file"
	set +a
	;;
esac

# The token in the file ends ten minutes after dev started.
if [ -x "$root/bin/tollgate" ] && [ -n "${TOLLGATE_CLIENT_JWK:-}" ]; then
	TOLLGATE_TOKEN=$("$root/bin/tollgate" token --quiet)
fi
export TOLLGATE_URL TOLLGATE_TOKEN
exec go run -C "$root/scripts/rate" . -rate "$2" -duration "$3"
