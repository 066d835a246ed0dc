// Goes a client's way with openid-client, as an application would: discovery (RFC 8414),
// a token for an assertion (RFC 7523), a read, introspection (RFC 7662), revocation
// (RFC 7009), and all of it once more with a client that must prove its key (RFC 9449).
//
//   node openid.mjs [ENV_FILE]
//
// ENV_FILE: sandbox.mjs. Ends with 1 when a check fails.

import assert from 'node:assert/strict'
import * as jose from 'jose'
import * as client from 'openid-client'
import { base, check, clientID, issuer, jwk, organization, patience } from './sandbox.mjs'

const key = { key: await jose.importJWK(jwk, jwk.alg ?? 'ES256'), kid: jwk.kid }
const resource = new URL(`/v1/organizations/${organization}`, base)
const scope = 'accounts:read access:write'

const config = await check('openid-client: discovery with algorithm oauth2', async () => {
  const found = await client.discovery(issuer, clientID, undefined, client.PrivateKeyJwt(key), {
    algorithm: 'oauth2', execute: [client.allowInsecureRequests], timeout: patience / 1000,
  })
  assert.equal(found.serverMetadata().supportsPKCE(), false)
  assert.deepEqual(found.serverMetadata().grant_types_supported, ['client_credentials'])
  return found
})

const read = (token, options) => client.fetchProtectedResource(config, token, resource, 'GET', undefined, undefined, options)
const grant = (options) => client.clientCredentialsGrant(config, { scope }, options)

// challenged is that a read is refused with 401 and this error (RFC 6750 §3).
async function challenged(reading, error, scheme = 'bearer') {
  await assert.rejects(reading, (e) => {
    assert.ok(e instanceof client.WWWAuthenticateChallengeError, `${e}`)
    assert.equal(e.status, 401)
    const challenge = e.cause.find((c) => c.scheme === scheme)
    assert.equal(challenge?.parameters.error, error)
    return true
  })
}

// bindTokens says whether the client gets only tokens that are bound to a key.
async function bindTokens(token, bound, options) {
  const own = new URL(`/v1/clients/${clientID}`, base)
  const body = JSON.stringify({ dpop_bound_access_tokens: bound })
  const answer = await client.fetchProtectedResource(config, token, own, 'PATCH', body, new Headers({ 'content-type': 'application/json' }), options)
  assert.equal((await answer.json()).dpop_bound_access_tokens, bound)
}

const first = await check('openid-client: a token, and a read with it', async () => {
  const token = await grant()
  assert.equal(token.token_type, 'bearer')
  assert.equal(token.scope, scope)
  assert.ok(token.expiresIn() > 0 && token.expiresIn() <= 600)
  assert.equal((await (await read(token.access_token)).json()).id, organization)
  return token.access_token
})
await check('openid-client: introspection of the token and of nonsense', async () => {
  const is = await client.tokenIntrospection(config, first)
  assert.equal(is.active, true)
  assert.equal(is.client_id, clientID)
  assert.equal(is.scope, jose.decodeJwt(first).scope)
  assert.deepEqual({ ...await client.tokenIntrospection(config, 'nonsense') }, { active: false })
})
await check('openid-client: a revoked token is not active and reads nothing; another still does', async () => {
  const other = (await grant()).access_token
  for (let again = 0; again < 2; again++) await client.tokenRevocation(config, first, { token_type_hint: 'access_token' })
  assert.deepEqual({ ...await client.tokenIntrospection(config, first) }, { active: false })
  await challenged(read(first), 'invalid_token')
  assert.equal((await read(other)).status, 200)
})

// From here on the client must prove its key. Nonces are openid-client's concern.
const DPoP = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
const strangers = client.getDPoPHandle(config, await client.randomDPoPKeyPair('ES256'))
const bearer = (await grant()).access_token
await check('openid-client: a client that must prove its key gets no token without; earlier ones end', async () => {
  await bindTokens(bearer, true)
  await assert.rejects(grant(), (e) => e instanceof client.ResponseBodyError && e.status === 400 && e.error === 'invalid_dpop_proof')
  await challenged(read(bearer), 'invalid_token')
})
const bound = await check('openid-client: with a proof it gets a bound one, and reads with it', async () => {
  const token = await grant({ DPoP })
  assert.equal(token.token_type, 'dpop')
  assert.equal((await read(token.access_token, { DPoP })).status, 200)
  const is = await client.tokenIntrospection(config, token.access_token)
  assert.equal(is.token_type.toLowerCase(), 'dpop')
  assert.equal(is.cnf.jkt, await DPoP.calculateThumbprint())
  return token.access_token
})
await check('openid-client: the bound token is nothing without its key, and nothing once revoked', async () => {
  await challenged(read(bound), 'invalid_token')
  await challenged(read(bound, { DPoP: strangers }), 'invalid_dpop_proof', 'dpop')
  await client.tokenRevocation(config, bound)
  assert.deepEqual({ ...await client.tokenIntrospection(config, bound) }, { active: false })
  await challenged(read(bound, { DPoP }), 'invalid_token', 'dpop')
})
await check('openid-client: the client is as it was before', async () => {
  await bindTokens((await grant({ DPoP })).access_token, false, { DPoP })
  assert.equal((await grant()).token_type, 'bearer')
})
console.log(`all checks of openid-client passed against ${config.serverMetadata().issuer}`)
