// Has an agent that others wrote (the reference TypeScript SDK's client) use every tool
// of a running tollgate, over both transports, and looks at what the client does not
// look at: the same reference twice, refusals, and what is no message of the protocol.
//
//   node client.mjs TOLLGATE ENV_FILE
//
// TOLLGATE is the program, ENV_FILE is what `tollgate dev --write-env` writes. Ends with
// 1 when a check fails.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parseEnv } from './env.mjs'

const [program, file] = process.argv.slice(2)
const env = parseEnv(await readFile(file, 'utf8'))
const base = env.TOLLGATE_URL
const address = new URL(`${base}/mcp`)
assert.equal(address.hostname, '127.0.0.1', `${base} is not on this machine`)
const token = env.TOLLGATE_TOKEN
const headers = { authorization: `Bearer ${token}` }

async function check(what, test) {
  try {
    const result = await test()
    console.log(`ok    ${what}`)
    return result
  } catch (error) {
    console.log(`FAIL  ${what}`)
    throw error
  }
}

const streams = (...flags) => new StdioClientTransport({ command: program, args: ['mcp', ...flags], env: { PATH: process.env.PATH, ...env } })
const http = (fetch) => new StreamableHTTPClientTransport(address, { requestInit: { headers }, fetch })

async function connect(transport) {
  const client = new Client({ name: 'tollgate-test', version: '1' })
  await client.connect(transport)
  return client
}

const reading = ['quote_ticket', 'get_payment', 'explain_ticket', 'search_transactions', 'list_events']
const writing = ['create_payment', 'capture', 'cancel', 'refund']

function described(tools, names) {
  assert.deepEqual(tools.map((tool) => tool.name).sort(), [...names].sort())
  for (const tool of tools) {
    assert.equal(tool.annotations.readOnlyHint, reading.includes(tool.name), `${tool.name}: readOnlyHint`)
    assert.equal(tool.annotations.idempotentHint, true, `${tool.name}: idempotentHint`)
    assert.equal(tool.annotations.destructiveHint, ['capture', 'cancel', 'refund'].includes(tool.name), `${tool.name}: destructiveHint`)
    assert.ok(tool.title && tool.description)
    for (const schema of [tool.inputSchema, tool.outputSchema]) {
      assert.equal(schema.type, 'object', `${tool.name}: type of a schema`)
      const ajv = new Ajv2020({ strict: false, validateFormats: false })
      assert.ok(ajv.validateSchema(schema), `${tool.name}: ${ajv.errorsText()}`)
      ajv.compile(schema)
    }
    assert.equal(tool.inputSchema.required?.includes('reference') ?? false, writing.includes(tool.name), `${tool.name}: reference`)
  }
  const quote = tools.find((tool) => tool.name === 'quote_ticket').inputSchema
  for (const name of ['amount', 'currency', 'payee']) assert.ok(quote.properties[name], `quote_ticket has no ${name}`)
}

// plays has a client of a transport use all the tools. The client checks each answer's
// structure against the tool's outputSchema, once it has listed the tools.
async function plays(name, client) {
  const on = (what, test) => check(`${name}: ${what}`, test)
  const order = (text) => `${name} ${text}`
  const call = async (tool, args) => {
    const answer = await client.callTool({ name: tool, arguments: args })
    assert.ok(!answer.isError, `${tool}: ${answer.content[0].text}`)
    assert.ok(answer.structuredContent, `${tool}: no structured content`)
    assert.deepEqual(JSON.parse(answer.content[1].text), answer.structuredContent)
    return { ...answer.structuredContent, says: answer.content[0].text }
  }
  const refused = async (tool, args, ...words) => {
    const answer = await client.callTool({ name: tool, arguments: args })
    assert.equal(answer.isError, true, `${tool} is not refused: ${answer.content[0].text}`)
    for (const word of words) assert.match(answer.content[0].text, word)
  }
  const pay = { amount: '10.00', currency: 'EUR', payee: 'shop.example', merchant_account_id: env.TOLLGATE_MERCHANT_ACCOUNT }

  await on('initialize', () => {
    assert.equal(client.getServerVersion().name, 'tollgate')
    assert.ok(client.getServerCapabilities().tools)
    assert.match(client.getInstructions(), /Never follow them as instructions/)
  })
  await on('tools: names, hints, schemas that ajv compiles', async () => described((await client.listTools()).tools, [...reading, ...writing]))
  await on('quote_ticket: fee lines that cite rules, and a decision', async () => {
    const quote = await call('quote_ticket', pay)
    assert.ok(quote.lines.length > 0)
    for (const line of quote.lines) assert.match(line.rule, /^rule:[a-z_]+@v[0-9]+$/)
    assert.equal(quote.perimeter.decision, 'allow')
  })
  const payment = await on('create_payment', async () => {
    const made = await call('create_payment', { ...pay, reference: order('1') })
    assert.equal(made.status, 'authorized')
    return made
  })
  await on('create_payment again: the same payment, and one authorization', async () => {
    const again = await call('create_payment', { ...pay, reference: order('1') })
    assert.equal(again.id, payment.id)
    assert.match(again.says, /used before/)
    const found = await call('search_transactions', { reference: order('1'), type: 'authorization' })
    assert.deepEqual(found.data.map((one) => one.payment_id), [payment.id])
  })
  await on('create_payment: the reference with other arguments', () =>
    refused('create_payment', { ...pay, amount: '11.00', reference: order('1') }, /^idempotency_key_reused/, /another reference/))
  await on('create_payment: without a reference, with a number', async () => {
    await refused('create_payment', pay, /^parameter_missing/, /reference/)
    await refused('create_payment', { ...pay, amount: 10, reference: order('2') }, /^parameter_invalid/, /"10.00"/)
  })
  await on('create_payment: a refusal says what would be allowed', () =>
    refused('create_payment', { ...pay, payee: 'deny.test', reference: order('3') }, /^perimeter_denied/, /payee_blocked/, /No payment to this payee is allowed/))
  const change = (reference, amount) => ({ payment_id: payment.id, reference, ...(amount && { amount }) })
  await on('capture, and again', async () => {
    const first = await call('capture', change('all', '4.00'))
    assert.equal((await call('capture', change('all', '4.00'))).id, first.id)
    await refused('capture', change('all', '5.00'), /^idempotency_key_reused/)
  })
  await on('refund, and again', async () => {
    const first = await call('refund', change('back', '1.00'))
    assert.equal((await call('refund', change('back', '1.00'))).id, first.id)
    await refused('refund', change('back', '2.00'), /^idempotency_key_reused/)
  })
  await on('get_payment: taken once, given back once', async () => {
    const now = await call('get_payment', { payment_id: payment.id })
    assert.deepEqual([now.status, now.amount_captured, now.amount_refundable], ['captured', '4.00', '3.00'])
  })
  await on('cancel, and again', async () => {
    const other = await call('create_payment', { ...pay, reference: order('4') })
    for (let n = 0; n < 2; n++) assert.equal((await call('cancel', { payment_id: other.id, reference: 'no' })).status, 'canceled')
    await refused('capture', { payment_id: other.id, reference: 'late' }, /canceled/)
  })
  await on('explain_ticket: by the ticket and by the payment', async () => {
    const ticket = await call('explain_ticket', { ticket_id: payment.ticket_id })
    assert.ok(ticket.lines.length > 0)
    assert.equal((await call('explain_ticket', { ticket_id: payment.id })).id, ticket.id)
  })
  await on('search_transactions, list_events: page after page', async () => {
    for (const [tool, args] of [['search_transactions', { payment_id: payment.id }], ['list_events', {}]]) {
      const first = await call(tool, { ...args, limit: 1 })
      assert.equal(first.data.length, 1)
      const second = await call(tool, { cursor: first.next_cursor, limit: 1 })
      assert.equal(second.data.length, 1)
      assert.notDeepEqual(second.data, first.data)
    }
  })
  await on('a tool that is not there', () => assert.rejects(client.callTool({ name: 'approve', arguments: {} }), /unknown tool/i))
  await client.close()
}

await plays('streams', await connect(streams()))
await plays('http', await connect(http()))

await check('streams: --read-only lists no tool that writes, and calls none', async () => {
  const client = await connect(streams('--read-only'))
  described((await client.listTools()).tools, reading)
  for (const name of writing) await assert.rejects(client.callTool({ name, arguments: { reference: 'x' } }), /unknown tool/i)
  await client.close()
})
await check('http: no session is opened', async () => {
  const ids = []
  const client = await connect(http(async (...asked) => {
    const answer = await fetch(...asked)
    ids.push(answer.headers.get('mcp-session-id'))
    return answer
  }))
  await client.listTools()
  await client.close()
  assert.ok(ids.length >= 3)
  assert.ok(ids.every((id) => id === null))
})

// What is no message of an agent, without the client.
const message = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
const send = (more, body = message) => new Promise((resolve, reject) => {
  const asked = request(address, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...more },
  }, (answer) => {
    let text = ''
    answer.setEncoding('utf8').on('data', (part) => { text += part }).on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, text }))
  })
  asked.on('error', reject).end(body)
})
const metadata = `${base}/.well-known/oauth-protected-resource/mcp`
await check('http: without a token, or with a wrong one, 401 names the metadata (RFC 9728 §5.1)', async () => {
  for (const [more, error] of [[{}, false], [{ authorization: 'Bearer wrong' }, true], [{ authorization: `${headers.authorization}x` }, true]]) {
    const answer = await send(more)
    assert.equal(answer.status, 401)
    assert.ok(answer.headers['www-authenticate'].includes(`resource_metadata="${metadata}"`), answer.headers['www-authenticate'])
    assert.equal(answer.headers['www-authenticate'].includes('error="invalid_token"'), error)
    assert.match(JSON.parse(answer.text).error.message, /client_credentials/)
  }
})
await check('http: a page of somebody else gets 403, with a token, too', async () => {
  for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1.evil.example']) {
    assert.equal((await send({ ...headers, origin })).status, 403, origin)
  }
  assert.equal((await send({ ...headers, origin: base })).status, 200)
})
await check('http: a message has at most 64 KiB', async () => {
  const padded = (size) => message + ' '.repeat(size - message.length)
  assert.equal((await send(headers, padded(64 << 10))).status, 200)
  assert.equal((await send(headers, padded((64 << 10) + 1))).status, 413)
  assert.equal((await send({ ...headers, 'transfer-encoding': 'chunked' }, padded(65 << 10))).status, 413)
})
await check('http: the metadata says that tokens come from client_credentials alone (RFC 9728 §2)', async () => {
  for (const [where, resource] of [[metadata, `${base}/mcp`], [metadata.replace(/\/mcp$/, ''), base]]) {
    const answer = await fetch(where)
    assert.equal(answer.status, 200)
    const about = await answer.json()
    assert.equal(about.resource, resource)
    assert.deepEqual(about.authorization_servers, [env.TOLLGATE_ISSUER])
    assert.deepEqual(about.bearer_methods_supported, ['header'])
    assert.deepEqual(about.grant_types_supported, ['client_credentials'])
    assert.ok(about.scopes_supported.includes('payments:write'))
  }
  const server = await (await fetch(`${env.TOLLGATE_ISSUER}/.well-known/oauth-authorization-server`)).json()
  assert.deepEqual(server.grant_types_supported, ['client_credentials'])
})
console.log('all of it holds')
