// Verifies the access tokens of a service whose keys rotate, with libraries that others
// wrote. They read the key set once in 23 hours, and no token may be strange to them.
//
//   node rotation.mjs ISSUER FILE
//
// FILE has an hour of the service in each line: {"at","jwks","token"}. Time is the
// file's. Ends with 1 when a token cannot be verified.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { mock } from 'node:test'
import * as jose from 'jose'
import * as oauth from 'oauth4webapi'

const [issuer, file] = process.argv.slice(2)
const hours = (await readFile(file, 'utf8')).trimEnd().split('\n').map((line) => JSON.parse(line))
const day = 23 * 3_600_000 // for which a verifier keeps what it has read

let published
const answer = () => new Response(published, { headers: { 'content-type': 'application/json' } })

// Each reads at another hour of its 23, and never in between: not for a new kid, either.
const verifiers = Array.from({ length: 23 }, () => {
  const verifier = { reads: 0 }
  verifier.keys = jose.createRemoteJWKSet(new URL('/.well-known/jwks.json', issuer), {
    cacheMaxAge: day, cooldownDuration: day,
    [jose.customFetch]: async () => { verifier.reads++; return answer() },
  })
  return verifier
})
const server = { issuer, jwks_uri: `${issuer}/.well-known/jwks.json` }
const cache = {}

mock.timers.enable({ apis: ['Date'], now: hours[0].at })
const signers = new Set()
for (const [n, { at, jwks, token }] of hours.entries()) {
  mock.timers.setTime(at)
  published = jwks
  // The one that reads now, the one whose keys are oldest, and one between them.
  for (const i of n < 23 ? [n] : [n % 23, (n + 1) % 23, (n + 12) % 23]) {
    const { protectedHeader } = await jose.jwtVerify(token, verifiers[i].keys, { typ: 'at+jwt', issuer, audience: issuer, algorithms: ['ES256'] })
    signers.add(protectedHeader.kid)
  }
  const request = new Request(`${issuer}/v1/payments`, { headers: { authorization: `Bearer ${token}` } })
  const claims = await oauth.validateJwtAccessToken(server, request, issuer, {
    [oauth.jwksCache]: cache, [oauth.customFetch]: async () => answer(),
  })
  assert.equal(claims.client_id, 'cli_1')
}
for (const { reads } of verifiers) {
  assert.ok(reads <= Math.ceil(hours.length / 23), `a verifier has read ${reads} times`)
}
assert.equal(signers.size, 4)
console.log(`ok    ${hours.length} tokens of ${signers.size} keys, verified by ${verifiers.length} that read once in 23 hours`)
