#!/bin/bash
# Pay an order: pay.sh ORDER, in the environment that 'tollgate dev' writes.
# Needs curl, jq, openssl and socat. PORT is where webhooks come (3000).
set -euo pipefail
shopt -s inherit_errexit
here=$(cd "$(dirname "$0")" && pwd)
order=$1 port=${PORT:-3000} work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -r "$work"' EXIT

# call METHOD PATH [CURL OPTION…]. If there is no answer, start the script again: the
# same key pays once. An error is problem+json, with code, message and request_id.
call() {
	local status
	status=$(curl --silent --show-error --max-time 15 --output "$work/answer" --write-out '%{http_code}' \
		--header "Authorization: Bearer $token" --request "$1" "$TOLLGATE_URL$2" "${@:3}")
	[ "$status" -lt 300 ] || { echo "$1 $2: $status $(<"$work/answer")" >&2; exit 1; }
	cat "$work/answer"
}

token=$("$here/token.sh") # for ten minutes
json='Content-Type: application/json'

# Each request to the port is the input of a receive.sh.
body=$(jq -n --arg url "http://127.0.0.1:$port/" '{$url, event_types: ["payment.captured"]}')
endpoint=$(call POST /v1/webhooks --header "$json" --data "$body")
mkfifo "$work/events"
exec 3<>"$work/events" # as long as it is open, no event waits for a reader or gets lost
TOLLGATE_WEBHOOK_SECRET=$(jq -r .secret <<<"$endpoint") EVENTS=$work/events \
	socat "TCP-LISTEN:$port,bind=127.0.0.1,reuseaddr,fork" "EXEC:$here/receive.sh" &

[ -f "$order.key" ] || openssl rand -hex 16 >"$order.key" # before anything is sent
body=$(jq -n --arg reference "$order" '{amount: "12.00", currency: "EUR", payee: "shop.example", $reference}')
payment=$(call POST /v1/payments --header "Idempotency-Key: $(<"$order.key")" --header "$json" --data "$body")
id=$(jq -r .id <<<"$payment")
call POST "/v1/payments/$id/captures" --header "Idempotency-Key: $id-capture" >"$work/capture"
call GET "/v1/tickets/$(jq -r .ticket_id <<<"$payment")" | jq -r '.lines[] | "\(.label) \(.amount) \(.rule)"'
until read -r -t 60 event && [ "$(jq -r .data.payment_id <<<"$event")" = "$id" ]; do
	[ -n "$event" ] || { echo "no webhook within a minute" >&2; exit 1; }
done <&3
call DELETE "/v1/webhooks/$(jq -r .id <<<"$endpoint")" >"$work/deleted"
jq -r '"verified \(.id) \(.data.payment_id) \(.data.status)"' <<<"$event"
