// Pays against a running sandbox with a client made from the OpenAPI document:
// openapi-typescript's types and openapi-fetch, nothing of our own but the
// signature of the assertion. Ends with 1 when something is not as documented.
//
//   node pay.js          with the environment that `tollgate dev --write-env` writes

import { createPrivateKey, randomUUID, sign } from 'node:crypto'
import { readFileSync } from 'node:fs'
import createClient from 'openapi-fetch'
import type { components, paths } from './api.d.ts'

function setting(name: string): string {
  const value = process.env[name]
  if (!value) throw new Error(`${name} is not set`)
  return value
}

const base = setting('TOLLGATE_URL')
if (!['127.0.0.1', '[::1]', 'localhost'].includes(new URL(base).hostname)) throw new Error(`${base} is not on this machine`)

function assertion(): string {
  const given = setting('TOLLGATE_CLIENT_JWK')
  const jwk = JSON.parse(given.startsWith('{') ? given : readFileSync(given, 'utf8'))
  const client = setting('TOLLGATE_CLIENT_ID')
  const now = Math.floor(Date.now() / 1000)
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = part({ alg: 'ES256', kid: jwk.kid }) + '.' +
    part({ iss: client, sub: client, aud: setting('TOLLGATE_ISSUER'), iat: now, exp: now + 60, jti: randomUUID() })
  const key = createPrivateKey({ key: jwk, format: 'jwk' })
  return text + '.' + sign('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }).toString('base64url')
}

function must<T>(answer: { data?: T; error?: unknown; response: Response }): T {
  if (answer.data === undefined) throw new Error(`${answer.response.status} ${JSON.stringify(answer.error)}`)
  return answer.data
}

const api = createClient<paths>({ baseUrl: base })
const token = must(await api.POST('/oauth2/token', {
  body: {
    grant_type: 'client_credentials',
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: assertion(),
  },
  bodySerializer: (body) => new URLSearchParams(body as unknown as Record<string, string>),
  headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
}))
api.use({
  onRequest({ request }) {
    request.headers.set('Authorization', `Bearer ${token.access_token}`)
    return request
  },
})

const accounts = must(await api.GET('/v1/merchant-accounts'))
const account = accounts.data[0]
if (!account || !('name' in account)) throw new Error('there is no merchant account')
const price = { merchant_account_id: account.id, amount: '12.00', currency: 'EUR', payee: 'shop.example' }
const quote = must(await api.POST('/v1/quotes', { body: { tool: 'quote_ticket', input: price } }))
const payment = must(await api.POST('/v1/payments', { params: { header: { 'Idempotency-Key': randomUUID() } }, body: price }))
const capture = must(await api.POST('/v1/payments/{payment_id}/captures', { params: { path: { payment_id: payment.id } }, body: {} }))
if (capture.payment.status !== 'captured' || capture.fee_total !== quote.total) throw new Error(JSON.stringify(capture))

// An event is one of a union, told apart by its type.
const events = must(await api.GET('/v1/events', { params: { query: { object_id: payment.id, types: ['payment.*'] } } }))
const captured = events.data.find((e) => 'type' in e && e.type === 'payment.captured')
if (!captured || !('type' in captured) || captured.type !== 'payment.captured') throw new Error('no payment.captured')
const data: components['schemas']['PaymentEventData'] = captured.data
if (data.amount !== '12.00' || captured.data.capture_id !== capture.id) throw new Error(JSON.stringify(captured))
console.log(`ok    TypeScript: ${payment.id} captured, fees ${capture.fee_total}`)
