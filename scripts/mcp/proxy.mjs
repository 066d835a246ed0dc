// Has a suite that knows no tokens talk to /mcp: listens on a free port of this machine,
// and hands each request on with the token of the environment. Everything else of it
// stays as it is: Host and Origin are what the suite looks at.
//
//   TOLLGATE_TOKEN=… node proxy.mjs http://127.0.0.1:8080 ADDRESS_FILE

import { createServer, request } from 'node:http'
import { writeFile } from 'node:fs/promises'

const [base, file] = process.argv.slice(2)
const authorization = `Bearer ${process.env.TOLLGATE_TOKEN}`

const server = createServer((asked, answer) => {
  const onward = request(new URL(asked.url, base), { method: asked.method, headers: { ...asked.headers, authorization } }, (back) => {
    answer.writeHead(back.statusCode, back.headers)
    back.pipe(answer)
  })
  onward.on('error', () => answer.destroy())
  answer.on('close', () => onward.destroy())
  asked.pipe(onward)
})
server.listen(0, '127.0.0.1', () => writeFile(file, `http://127.0.0.1:${server.address().port}\n`))
