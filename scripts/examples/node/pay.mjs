// Pay an order: node pay.mjs ORDER, in the environment that 'tollgate dev' writes.
import { randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import express from 'express'
import { importJWK, SignJWT } from 'jose'
import { Webhook } from 'standardwebhooks'

const { TOLLGATE_URL, TOLLGATE_ISSUER, TOLLGATE_CLIENT_ID, TOLLGATE_CLIENT_JWK } = process.env
const order = process.argv[2]

// If there is no answer, start the program again: the same key pays once.
async function call(method, path, body, key) {
  const headers = {}
  if (token) headers.Authorization = `Bearer ${token.access_token}` // for ten minutes
  if (key) headers['Idempotency-Key'] = key
  if (body && token) headers['Content-Type'] = 'application/json'
  const request = { method, headers, body: token ? JSON.stringify(body) : body, signal: AbortSignal.timeout(15_000) }
  const answer = await fetch(TOLLGATE_URL + path, request)
  const text = await answer.text() // of an error: problem+json with code, message, request_id
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return text && JSON.parse(text)
}
const jwk = JSON.parse(readFileSync(TOLLGATE_CLIENT_JWK, 'utf8'))
const assertion = new SignJWT().setProtectedHeader({ alg: jwk.alg, kid: jwk.kid })
  .setIssuer(TOLLGATE_CLIENT_ID).setSubject(TOLLGATE_CLIENT_ID).setAudience(TOLLGATE_ISSUER)
  .setExpirationTime('1 minute').setJti(randomUUID())
let token
token = await call('POST', '/oauth2/token', new URLSearchParams({
  grant_type: 'client_credentials',
  client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
  client_assertion: await assertion.sign(await importJWK(jwk)),
}))

const events = new EventEmitter()
const receiver = express().post('/', express.raw({ type: '*/*', limit: '1mb' }), (req, res) => {
  let event
  try {
    event = new Webhook(endpoint.secret).verify(req.body, req.headers)
  } catch (error) {
    return res.status(400).send(error.message)
  }
  res.sendStatus(204) // answer first, then do the work
  events.emit(event.data.payment_id, event)
}).listen(0, '127.0.0.1')
await once(receiver, 'listening')
const url = `http://127.0.0.1:${receiver.address().port}/`
const endpoint = await call('POST', '/v1/webhooks', { url, event_types: ['payment.captured'] })

if (!existsSync(`${order}.key`)) writeFileSync(`${order}.key`, randomUUID()) // before anything is sent
const price = { amount: '12.00', currency: 'EUR', payee: 'shop.example', reference: order }
const payment = await call('POST', '/v1/payments', price, readFileSync(`${order}.key`, 'utf8'))
const captured = once(events, payment.id, { signal: AbortSignal.timeout(60_000) })
await call('POST', `/v1/payments/${payment.id}/captures`, undefined, `${payment.id}-capture`)
const ticket = await call('GET', `/v1/tickets/${payment.ticket_id}`)
for (const line of ticket.lines) console.log(line.label, line.amount, line.rule)
const [event] = await captured
await call('DELETE', `/v1/webhooks/${endpoint.id}`)
console.log('verified', event.id, event.data.payment_id, event.data.status)
receiver.close()
