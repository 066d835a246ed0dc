// Gets a token from a running tollgate with clients that others wrote
// (oauth4webapi, jose) and looks at everything on the way: discovery
// (RFC 8414), keys (RFC 7517, 7638), the client assertion (RFC 7523), the
// access token (RFC 9068), a read with it (RFC 6750), introspection (RFC 7662),
// revocation (RFC 7009) and proofs of possession (RFC 9449).
//
//   node token.mjs [ENV_FILE]
//
// ENV_FILE: sandbox.mjs. Ends with 1 when a check fails.

import assert from 'node:assert/strict'
import * as jose from 'jose'
import * as oauth from 'oauth4webapi'
import { base, check, clientID, issuer, jwk, organization, patience } from './sandbox.mjs'

const client = { client_id: clientID }
const key = { key: await jose.importJWK(jwk, jwk.alg ?? 'ES256'), kid: jwk.kid }
const options = () => ({ [oauth.allowInsecureRequests]: true, signal: AbortSignal.timeout(patience) })

const server = await check('discovery: the metadata names its own issuer (RFC 8414 §3.3)', async () => {
  const answer = await oauth.discoveryRequest(issuer, { ...options(), algorithm: 'oauth2' })
  return oauth.processDiscoveryResponse(issuer, answer)
})
await check('metadata: client credentials with private_key_jwt, and nothing that needs a browser', () => {
  assert.deepEqual(server.grant_types_supported, ['client_credentials'])
  assert.deepEqual(server.token_endpoint_auth_methods_supported, ['private_key_jwt'])
  assert.ok(server.token_endpoint_auth_signing_alg_values_supported.includes(jwk.alg ?? 'ES256'))
  assert.deepEqual(server.response_types_supported, [])
  assert.ok(server.scopes_supported.includes('accounts:read'))
  for (const endpoint of ['revocation', 'introspection']) {
    assert.equal(new URL(server[`${endpoint}_endpoint`]).origin, new URL(server.token_endpoint).origin)
    assert.deepEqual(server[`${endpoint}_endpoint_auth_methods_supported`], ['private_key_jwt'])
    assert.deepEqual(server[`${endpoint}_endpoint_auth_signing_alg_values_supported`], server.token_endpoint_auth_signing_alg_values_supported)
  }
})

const keys = await check('keys: public ES256 keys for signatures, each named by its RFC 7638 thumbprint', async () => {
  const answer = await fetch(server.jwks_uri, options())
  assert.equal(answer.status, 200)
  assert.match(answer.headers.get('cache-control'), /max-age=/)
  const again = await fetch(server.jwks_uri, { ...options(), headers: { 'If-None-Match': answer.headers.get('etag') } })
  assert.equal(again.status, 304)
  const set = await answer.json()
  assert.ok(set.keys.length > 0)
  for (const published of set.keys) {
    assert.equal(published.d, undefined, 'a private key is published')
    assert.equal(published.alg, 'ES256')
    assert.equal(published.use, 'sig')
    assert.equal(published.kid, await jose.calculateJwkThumbprint(published, 'sha256'))
  }
  return set
})

// grant asks for a token; change may alter the assertion before it is signed.
async function grant(change) {
  let assertion
  const authentication = oauth.PrivateKeyJwt(key, {
    [oauth.modifyAssertion](header, claims) {
      assertion = claims
      change?.(header, claims)
    },
  })
  const parameters = new URLSearchParams({ scope: 'accounts:read quotes:read' })
  const answer = await oauth.clientCredentialsGrantRequest(server, client, authentication, parameters, options())
  return { assertion, answer }
}

async function refused(change, error = 'invalid_client', status = 401) {
  const { answer } = await grant(change)
  await assert.rejects(oauth.processClientCredentialsResponse(server, client, answer), (e) => {
    assert.ok(e instanceof oauth.ResponseBodyError || e instanceof oauth.WWWAuthenticateChallengeError, `${e}`)
    assert.equal(answer.status, status)
    if (e instanceof oauth.ResponseBodyError) assert.equal(e.error, error)
    return true
  })
}

const first = await check('token: an assertion whose audience is the issuer gets one (RFC 7523, rfc7523bis)', async () => {
  const { assertion, answer } = await grant()
  assert.equal(assertion.aud, server.issuer)
  const token = await oauth.processClientCredentialsResponse(server, client, answer)
  assert.equal(token.token_type, 'bearer') // oauth4webapi writes it in lower case
  assert.equal(token.scope, 'accounts:read quotes:read')
  assert.ok(token.expires_in > 0 && token.expires_in <= 600)
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  return { assertion, token }
})
await check('token: an assertion works once', () => refused((_, claims) => { claims.jti = first.assertion.jti }))
await check('token: the token endpoint is no audience', () => refused((_, claims) => { claims.aud = server.token_endpoint }))
await check('token: an audience beside the issuer is refused', () => refused((_, claims) => { claims.aud = [server.issuer, 'https://other.example'] }))
await check('token: an assertion that has expired is refused', () => refused((_, claims) => { claims.exp = claims.iat - 60 }))
await check('token: an assertion that lives an hour is refused', () => refused((_, claims) => { claims.exp = claims.iat + 3600 }))
await check("token: another client's name is refused", () => refused((_, claims) => { claims.iss = claims.sub = 'cli_somebody' }))

await check('access token: jose accepts type, issuer, audience, signature and times (RFC 9068 §4)', async () => {
  const published = jose.createRemoteJWKSet(new URL(server.jwks_uri), { timeoutDuration: patience })
  const { payload, protectedHeader } = await jose.jwtVerify(first.token.access_token, published, {
    typ: 'at+jwt', issuer: server.issuer, audience: server.issuer, algorithms: ['ES256'],
    requiredClaims: ['sub', 'exp', 'iat', 'jti', 'client_id', 'scope', 'org', 'grant_id', 'gv'],
  })
  assert.equal(payload.sub, clientID)
  assert.equal(payload.client_id, clientID)
  assert.equal(payload.org, organization)
  assert.equal(payload.exp - payload.iat, first.token.expires_in)
  assert.ok(keys.keys.some((published) => published.kid === protectedHeader.kid))
})
const bearer = `Bearer ${first.token.access_token}`
await check('access token: oauth4webapi, as a resource server, accepts it too', async () => {
  const request = new Request(base, { headers: { authorization: bearer } })
  const claims = await oauth.validateJwtAccessToken(server, request, server.issuer, options())
  assert.equal(claims.client_id, clientID)
})

const resource = new URL(`/v1/organizations/${organization}`, base)
await check('read: the organization, with the token', async () => {
  const answer = await oauth.protectedResourceRequest(first.token.access_token, 'GET', resource, undefined, undefined, options())
  assert.equal(answer.status, 200)
  assert.equal((await answer.json()).id, organization)
  assert.equal(answer.headers.get('cache-control'), 'private, no-cache')
})
await check('read: without a token it is 401 with a challenge (RFC 6750 §3)', async () => {
  const answer = await fetch(resource, options())
  assert.equal(answer.status, 401)
  assert.match(answer.headers.get('www-authenticate'), /^Bearer( |$)/)
  assert.equal((await answer.json()).code, 'token_missing')
})
await check('read: a changed token is 401 invalid_token', async () => {
  const [header, payload, signature] = first.token.access_token.split('.')
  const turned = signature.startsWith('A') ? `B${signature.slice(1)}` : `A${signature.slice(1)}`
  await assert.rejects(
    oauth.protectedResourceRequest([header, payload, turned].join('.'), 'GET', resource, undefined, undefined, options()),
    (error) => {
      assert.ok(error instanceof oauth.WWWAuthenticateChallengeError, `${error}`)
      assert.equal(error.status, 401)
      assert.equal(error.cause[0].parameters.error, 'invalid_token')
      return true
    })
})
await check('read: a scope that was not asked for is 403 insufficient_scope', async () => {
  const payments = new URL('/v1/transactions', base)
  await assert.rejects(
    oauth.protectedResourceRequest(first.token.access_token, 'GET', payments, undefined, undefined, options()),
    (error) => {
      assert.ok(error instanceof oauth.WWWAuthenticateChallengeError, `${error}`)
      assert.equal(error.status, 403)
      assert.equal(error.cause[0].parameters.error, 'insufficient_scope')
      return true
    })
})

// introspect asks what a token means.
async function introspect(token) {
  const answer = await oauth.introspectionRequest(server, client, oauth.PrivateKeyJwt(key), token, options())
  return oauth.processIntrospectionResponse(server, client, answer)
}

await check('introspection: the token is active, and says what it says itself (RFC 7662)', async () => {
  const { active, ...claims } = await introspect(first.token.access_token)
  assert.equal(active, true)
  const own = jose.decodeJwt(first.token.access_token)
  for (const name of ['scope', 'client_id', 'exp', 'iat', 'sub', 'aud', 'iss', 'jti', 'org', 'grant_id']) assert.equal(claims[name], own[name], name)
})
await check('introspection: nonsense is not active, and nothing more is said', async () => {
  assert.deepEqual({ ...await introspect('nonsense') }, { active: false })
})
await check('revocation: the token, and nonsense, are answered alike (RFC 7009)', async () => {
  for (const token of [first.token.access_token, first.token.access_token, 'nonsense']) {
    const answer = await oauth.revocationRequest(server, client, oauth.PrivateKeyJwt(key), token, options())
    assert.equal(await oauth.processRevocationResponse(answer), undefined)
  }
})
await check('revocation: the token is not active and reads nothing', async () => {
  assert.deepEqual({ ...await introspect(first.token.access_token) }, { active: false })
  await assert.rejects(
    oauth.protectedResourceRequest(first.token.access_token, 'GET', resource, undefined, undefined, options()),
    (error) => error instanceof oauth.WWWAuthenticateChallengeError && error.cause[0].parameters.error === 'invalid_token')
})

// Proofs of possession (RFC 9449), as oauth4webapi makes them: it takes the nonces from
// the answers.
const possession = oauth.DPoP(client, await oauth.generateKeyPair('ES256'))
async function bound() {
  const parameters = new URLSearchParams({ scope: 'accounts:read' })
  const answer = await oauth.clientCredentialsGrantRequest(server, client, oauth.PrivateKeyJwt(key), parameters, { ...options(), DPoP: possession })
  return oauth.processClientCredentialsResponse(server, client, answer)
}

const held = await check('DPoP: the first proof is asked for a nonce, the second gets a bound token (RFC 9449 §5, §8)', async () => {
  assert.ok(server.dpop_signing_alg_values_supported.includes('ES256'))
  await assert.rejects(bound(), (error) => oauth.isDPoPNonceError(error))
  const token = await bound()
  assert.equal(token.token_type, 'dpop')
  assert.equal(jose.decodeJwt(token.access_token).cnf.jkt, await possession.calculateThumbprint())
  return token
})
await check('DPoP: a read with a proof, and introspection', async () => {
  const answer = await oauth.protectedResourceRequest(held.access_token, 'GET', resource, undefined, undefined, { ...options(), DPoP: possession })
  assert.equal(answer.status, 200)
  const is = await introspect(held.access_token)
  assert.equal(is.token_type.toLowerCase(), 'dpop')
  assert.equal(is.cnf.jkt, await possession.calculateThumbprint())
})
await check('DPoP: the bound token is no bearer token, and no token of another key', async () => {
  for (const DPoP of [undefined, oauth.DPoP(client, await oauth.generateKeyPair('ES256'))]) {
    await assert.rejects(
      oauth.protectedResourceRequest(held.access_token, 'GET', resource, undefined, undefined, { ...options(), ...(DPoP && { DPoP }) }),
      (error) => error instanceof oauth.WWWAuthenticateChallengeError && error.status === 401)
  }
})
console.log(`all checks passed against ${server.issuer}`)
