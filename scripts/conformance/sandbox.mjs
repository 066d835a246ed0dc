// Where the running tollgate is, and who asks it: read by the programs beside it from
// ENV_FILE, their argument, which `tollgate dev --write-env` writes. Without it, or where
// it has no such line, the environment counts.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'

export const patience = 10_000 // milliseconds for each request
const env = { ...process.env, ...(process.argv[2] ? parseEnv(await readFile(process.argv[2], 'utf8')) : {}) }

function parseEnv(text) {
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'))
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf('=')
    return [line.slice(0, at).replace(/^export /, ''), line.slice(at + 1).replace(/^(['"])(.*)\1$/, '$2')]
  }))
}

function setting(name) {
  if (!env[name]) throw new Error(`${name} is not set`)
  return env[name]
}

// check runs a test, says how it went, and gives what it returned.
export async function check(what, test) {
  try {
    const result = await test()
    console.log(`ok    ${what}`)
    return result
  } catch (error) {
    console.log(`FAIL  ${what}`)
    throw error
  }
}

export const base = new URL(setting('TOLLGATE_URL'))
export const issuer = new URL(setting('TOLLGATE_ISSUER'))
export const clientID = setting('TOLLGATE_CLIENT_ID')
export const organization = setting('TOLLGATE_ORGANIZATION')
const given = setting('TOLLGATE_CLIENT_JWK')
export const jwk = JSON.parse(given.trimStart().startsWith('{') ? given : await readFile(given, 'utf8'))
assert.ok(['127.0.0.1', '[::1]', 'localhost'].includes(base.hostname), `${base} is not on this machine`)
