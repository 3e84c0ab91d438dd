import { createHmac } from 'node:crypto'
import { request as requestHttp } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as requestHttps } from 'node:https'
import type { RecordedEvent } from './follow-events.ts'

/** The status that the receiver answered, or why there was none. */
export type Forwarded =
  { readonly status: number; readonly reason?: never } | { readonly status: null; readonly reason: string }

/** The timeout of a webhook delivery. */
const TIMEOUT_MS = 5_000

/** Sends an event once, like the first attempt of a delivery. Does not follow redirects. */
export async function forward(
  event: RecordedEvent,
  { target, secret, signal }: { target: URL; secret: string; signal: AbortSignal },
): Promise<Forwarded> {
  const deadline = AbortSignal.timeout(TIMEOUT_MS)
  try {
    return {
      status: await post(target, headersOf(event, secret), event.body, AbortSignal.any([deadline, signal])),
    }
  } catch (error) {
    if (deadline.aborted) return { status: null, reason: `no answer within ${TIMEOUT_MS / 1000} s` }
    return { status: null, reason: reasonOf(error) }
  }
}

function headersOf({ id, body }: RecordedEvent, secret: string): Record<string, string> {
  const seconds = Math.floor(Date.now() / 1000)
  const mac = createHmac('sha256', secret).update(`${seconds}.`).update(body).digest('hex')
  return {
    'Content-Type': 'application/json',
    'User-Agent': 'Licensing-Webhooks/1.0',
    'Webhook-Id': id,
    'Webhook-Attempt': '1',
    'Webhook-Signature': `t=${seconds},v1=${mac}`,
    'Content-Length': String(body.length),
  }
}

function post(
  target: URL,
  headers: Record<string, string>,
  body: Buffer,
  signal: AbortSignal,
): Promise<number> {
  const request = target.protocol === 'https:' ? requestHttps : requestHttp
  return new Promise((resolve, reject) => {
    // A new connection for each event, because a receiver that restarts between two events closes the old connection.
    const sending = request(
      target,
      { method: 'POST', headers, agent: false, signal },
      (answer: IncomingMessage) => {
        answer.on('error', () => undefined)
        answer.resume()
        resolve(answer.statusCode ?? 0)
      },
    )
    sending.on('error', reject)
    sending.end(body)
  })
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === 'ECONNREFUSED') return 'connection refused'
  if (code === 'ECONNRESET') return 'connection closed without an answer'
  if (code === 'ENOTFOUND') return 'unknown host'
  return code === '' && error instanceof Error ? error.message : code
}
