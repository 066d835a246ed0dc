// Has the reference TypeScript SDK's client pay with a configuration of mcpServers, as
// programs that run agents read it: within the budget of 40.00 EUR, beyond it, and then
// what the refusal says would be allowed.
//
//   node budget.mjs mcp.json

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'

const { command, args, env } = JSON.parse(await readFile(process.argv[2], 'utf8')).mcpServers.tollgate
const client = new Client({ name: 'buyer', version: '1' })
await client.connect(new StdioClientTransport({ command, args, env })) // it inherits no variable of Tollgate's
await client.listTools() // from now on it checks what tools answer

async function pay(amount, reference, capture_method = 'manual') {
  const answer = await client.callTool({ name: 'create_payment', arguments: { amount, currency: 'EUR', payee: 'shop.example', reference, capture_method } })
  console.log(`      ${amount}: ${answer.content[0].text}`)
  return { refused: answer.isError === true, says: answer.content[0].text, ...answer.structuredContent }
}

const first = await pay('15.00', 'order-1')
assert.equal(first.status, 'authorized')
const beyond = await pay('30.00', 'order-2')
assert.ok(beyond.refused)
assert.match(beyond.says, /^perimeter_denied: .*budget_exhausted/)
const [, allowed] = /Allowed: up to ([0-9.]+) EUR to shop\.example until [A-Z][a-z]+day /.exec(beyond.says) ?? assert.fail(beyond.says)
assert.equal(allowed, '25.00')
assert.equal((await pay(allowed, 'order-3')).status, 'authorized')
const none = await pay('0.01', 'order-4')
assert.ok(none.refused)
assert.match(none.says, /Nothing more in EUR to shop\.example is allowed until /)
const again = await pay('15.00', 'order-1')
assert.equal(again.id, first.id)
await client.close()
