#!/bin/bash
# Receive one webhook: a request of HTTP on standard input, the answer on standard
# output. An event that TOLLGATE_WEBHOOK_SECRET has signed goes to the file EVENTS.
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -r "$PWD"' EXIT

declare -A header
read -r -t 5 _request
while IFS=': ' read -r -t 5 name value && [ "$name" != $'\r' ]; do
	header[${name,,}]=${value%$'\r'}
done
head -c "${header[content-length]:-0}" >body

# Standard Webhooks: HMAC-SHA256 over id.timestamp.body, five minutes old at most.
id=${header[webhook-id]:-} sent=${header[webhook-timestamp]:-0}
secret=$(printf %s "${TOLLGATE_WEBHOOK_SECRET#whsec_}" | openssl base64 -d -A | od -An -v -tx1 | tr -d ' \n')
want=v1,$({ printf '%s.%s.' "$id" "$sent"; cat body; } | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$secret" -binary | openssl base64 -A)
age=$(($(date +%s) - 10#${sent//[^0-9]/0}))
if [ "${age#-}" -le 300 ] && [[ " ${header[webhook-signature]:-} " == *" $want "* ]]; then
	printf 'HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n' # answer first, then do the work
	jq -c . body 1<>"$EVENTS" # which does not wait for a reader, who may have gone
else
	printf 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
fi
