import { Agent, request as httpRequest } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { FuzzRequest } from './requests.ts'

export interface FuzzAnswer {
  status: number
  headers: IncomingHttpHeaders
  body: string
  ms: number
}

const agent = new Agent({ keepAlive: true })
const longestWaitMs = 30_000

/** Sends a request as it is: its path is not normalized, its headers are not completed. */
export function send(gatewayUrl: string, request: FuzzRequest): Promise<FuzzAnswer> {
  const { method, target, headers, body, chunked } = request
  const { hostname, port } = new URL(gatewayUrl)
  const length =
    body === undefined ? {} : chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length }
  const started = performance.now()
  return new Promise((resolve, reject) => {
    const call = httpRequest(
      { agent, hostname, port, method, path: target, headers: { ...headers, ...length } },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: Buffer.concat(chunks).toString('utf8'),
            ms: performance.now() - started,
          }),
        )
      },
    )
    call.setTimeout(longestWaitMs, () => call.destroy(new Error(`no answer within ${longestWaitMs} ms`)))
    call.on('error', reject)
    if (body && chunked)
      for (let at = 0; at < body.length; at += 50_000) call.write(body.subarray(at, at + 50_000))
    else if (body) call.write(body)
    call.end()
  })
}
