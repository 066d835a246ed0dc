// The ids of an answer are the variables of the next requests.
const names = { webhook_endpoint: 'webhook_id', export: 'job_id' }
const found = ['delivery', 'event', 'payout', 'perimeter'] // not made by a request, but found in a list
let answer
try {
  answer = pm.response.json()
} catch {
  answer = {}
}
if (answer.object === 'list') answer = answer.data.find((one) => found.includes(one.object)) || {}
if (answer.id && answer.object) {
  pm.collectionVariables.set(names[answer.object] || answer.object + '_id', answer.id)
}
if (answer.ticket_id) pm.collectionVariables.set('ticket_id', answer.ticket_id)
pm.test('the service answers', () => pm.expect(pm.response.code, pm.response.text()).to.be.below(500))
