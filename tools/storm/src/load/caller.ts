import { setTimeout as sleep } from 'node:timers/promises'
import type { Asked, Answered, Sent } from '../outcome.ts'

/** Longer than the limit for requests in the checks, so that a request over the limit is recorded with its time. */
const requestTimeoutMs = 75_000

export interface Request {
  /** One of the gateways: `http://host:port`. */
  gatewayUrl: string
  apiKey: string | null
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: string
  body?: object
  headers?: Record<string, string>
}

// A pause after a request without an answer, because real clients do not repeat a refused connection immediately.
const afterNoAnswerMs = 400

/** Sends requests and keeps a record of each. */
export interface Caller {
  sent: Sent[]
  send(asked: Asked, request: Request): Promise<Sent>
}

export function startCaller(): Caller {
  const sent: Sent[] = []
  return {
    sent,
    send: async (asked, request) => {
      const from = Date.now()
      const answer = await ask(request)
      const record: Sent = { asked, from, to: Date.now(), ...answer }
      sent.push(record)
      if (record.status === 0) await sleep(afterNoAnswerMs)
      return record
    },
  }
}

async function ask({ gatewayUrl, apiKey, method, path, body, headers }: Request) {
  try {
    const response = await fetch(`${gatewayUrl}${path}`, {
      method,
      redirect: 'manual',
      signal: AbortSignal.timeout(requestTimeoutMs),
      headers: {
        ...(apiKey !== null && { authorization: `Bearer ${apiKey}` }),
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const parsed = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>
    const code = typeof parsed['code'] === 'string' ? parsed['code'] : null
    return { answered: answeredBy(response.status), status: response.status, code, body: parsed }
  } catch {
    return { answered: 'unknown' as const, status: 0, code: null, body: {} }
  }
}

function answeredBy(status: number): Answered {
  if (status >= 200 && status < 300) return 'acknowledged'
  return status >= 400 && status < 500 ? 'refused' : 'unknown'
}
