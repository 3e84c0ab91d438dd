import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

interface Request {
  method: string
  url: string
}

interface Answer {
  status: number
  text: string
}

/** A proxy in front of the simulated Stripe. */
export interface ProcessorProxy extends AsyncDisposable {
  readonly url: string
  /** URL of the simulated Stripe. */
  target: string
}

/** @param answer answers a request, with or without forwarding it. If it rejects, the connection is closed. */
export async function startProcessorProxy(
  answer: (request: Request, forward: () => Promise<Answer>) => Promise<Answer>,
): Promise<ProcessorProxy> {
  const server = createServer((request, response) => {
    const { method = 'GET', url = '' } = request
    const pass = async () => {
      const body = Buffer.concat(await request.toArray())
      const forward = async () => {
        const headers = new Headers()
        for (const [name, value] of Object.entries(request.headers)) {
          if (!/^(host|connection|content-length|transfer-encoding)$/.test(name))
            headers.set(name, String(value))
        }
        const options = { method, headers, ...(method !== 'GET' && { body }) }
        const answered = await fetch(`${proxy.target}${url}`, options)
        return { status: answered.status, text: await answered.text() }
      }
      const { status, text } = await answer({ method, url }, forward)
      response.writeHead(status, { 'content-type': 'application/json' }).end(text)
    }
    pass().catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const proxy: ProcessorProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    target: '',
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return proxy
}
