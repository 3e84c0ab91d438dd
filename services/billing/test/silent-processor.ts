import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A processor that shows its accounts and opens checkouts, but answers no other request: its events must suffice. */
export interface SilentProcessor extends AsyncDisposable {
  readonly url: string
  /** Sets the address of the processor that really opens the checkouts. */
  standInFrontOf(url: string): void
}

export async function startSilentProcessor(): Promise<SilentProcessor> {
  let behind = ''
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const { method = 'GET' } = request
      const opens = method === 'POST' && request.url === '/v1/checkout/sessions'
      if (!opens && !request.url?.startsWith('/v1/accounts/')) {
        response.writeHead(404, { 'content-type': 'application/json' })
        response.end('{"error":{"type":"invalid_request_error","message":"Unrecognized request URL"}}')
        return
      }
      const headers = new Headers()
      for (const [name, value] of Object.entries(request.headers)) {
        if (!/^(host|connection|content-length|transfer-encoding)$/.test(name))
          headers.set(name, String(value))
      }
      fetch(`${behind}${request.url}`, { method, headers, ...(opens && { body: Buffer.concat(parts) }) })
        .then(async (answer) => {
          response.writeHead(answer.status, { 'content-type': 'application/json' })
          response.end(Buffer.from(await answer.arrayBuffer()))
        })
        .catch(() => response.destroy())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    standInFrontOf(url) {
      behind = url
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
