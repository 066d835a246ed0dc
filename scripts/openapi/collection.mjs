// Runs the collection against a sandbox, whole and in its order, as Postman's own runner
// does: node collection.mjs URL. Ends with 1 when a request of it is not one of the API.
import newman from 'newman'

const collection = new URL('../examples/tollgate.postman_collection.json', import.meta.url).pathname
const expected = {
  'Create a payment': 201,
  'Capture an authorized payment': 201,
  'Refund a captured payment': 201,
  'Read a ticket': 200,
  'Make a webhook endpoint': 201,
  'Send a delivery now': 202,
  'Delete a webhook endpoint': 200,
  'Download the file of an export': 200,
  // There is no such rule and no such client in the sandbox.
  'Activate a rule at a time': 400,
  'Exchange a signed client assertion for a scoped access token': 401,
  'End an access token of the client': 401,
  'Ask what an access token of the client means now': 401,
  // The client of the sandbox has the example's key.
  'Add a key to a client': 400,
}

const envVar = [{ key: 'base_url', value: process.argv[2] }]
newman.run({ collection, envVar }, (error, summary) => {
  if (error) throw error
  const { executions, failures } = summary.run
  const wrong = executions.filter(({ item, response }) => {
    if (item.name in expected) return response?.code !== expected[item.name]
    return ![200, 201, 202, 404, 409, 422].includes(response?.code)
  }).map(({ item, response }) => `${item.name}: ${response?.code} ${response?.text()}`)
  wrong.push(...failures.map(({ error }) => error.message))
  const missing = Object.keys(expected).filter((name) => !executions.some(({ item }) => item.name === name))
  wrong.push(...missing.map((name) => `${name}: not in the collection`))
  if (wrong.length > 0) {
    console.error(wrong.join('\n'))
    process.exit(1)
  }
  console.log(`ok    the collection: ${executions.length} requests`)
})
