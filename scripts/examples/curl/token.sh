#!/bin/bash
# Print an access token for the client and its key file in the environment: the
# assertion is a JWT (ES256) that openssl signs. 'tollgate token' does the same.
set -euo pipefail
encoded() { openssl base64 -A | tr '+/' '-_' | tr -d =; }
hex() { od -An -v -tx1 | tr -d ' \n'; }
bytes() { printf "$(sed 's/../\\x&/g')"; }

# The private key, 32 bytes, as openssl reads it (RFC 5915, P-256).
key=$(jq -r .d "$TOLLGATE_CLIENT_JWK" | tr -- '-_' '+/' | sed 's/$/=/' | openssl base64 -d -A | hex)
pem=$(echo "30310201010420${key}a00a06082a8648ce3d030107" | bytes | openssl ec -inform DER 2>/dev/null)

header=$(jq -c '{alg, kid}' "$TOLLGATE_CLIENT_JWK" | encoded)
claims=$(jq -nc --arg id "$TOLLGATE_CLIENT_ID" --arg aud "$TOLLGATE_ISSUER" --arg jti "$(openssl rand -hex 16)" \
	'{iss: $id, sub: $id, $aud, $jti, exp: (now + 60 | floor)}' | encoded)

# openssl writes the two numbers of the signature as DER; a JWT has 32 bytes of each.
signature=$(printf %s "$header.$claims" | openssl dgst -sha256 -sign <(echo "$pem") | openssl asn1parse -inform DER |
	sed -n 's/.*INTEGER *://p' | while read -r number; do printf '%64s' "$number"; done | tr ' ' 0 | bytes | encoded)

curl --silent --show-error --fail-with-body --max-time 15 "$TOLLGATE_URL/oauth2/token" \
	-d grant_type=client_credentials -d client_assertion_type=urn:ietf:params:oauth:client-assertion-type:jwt-bearer \
	-d "client_assertion=$header.$claims.$signature" | jq -r .access_token
