import { setTimeout as sleep } from 'node:timers/promises'
import type { Answered, Asked, Sent } from '../outcome.ts'
import type { Random } from '../random.ts'
import type { Vendor } from '../stack.ts'
import type { Shop, World } from './world.ts'

/** Longer than the limit for requests in the checks, so that a request over the limit is recorded with its time. */
const requestTimeoutMs = 75_000
// A pause after a request without an answer, because real clients do not repeat a refused connection immediately.
const afterNoAnswerMs = 400

/** The path of a call after its method, such as `POST /v1/activations`. */
type Route = `${'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'} /${string}`

interface Extra {
  /** The bearer token, by default the vendor's API key. Null sends none. */
  apiKey?: string | null
  headers?: Record<string, string>
}

type Send = (asked: Asked, route: Route, body?: object, extra?: Extra) => Promise<Sent>

/** One of the concurrent clients. */
export interface Client {
  world: World
  shop: Shop
  random: Random
  /** The path of the vendor's application. */
  app: `/v1/apps/${string}`
  /** A number, as text, that no other write of the storm uses. */
  unique(): string
  send: Send
}

export type Action = (client: Client) => Promise<unknown>

let writes = 0

/** @param shop the vendor whose API key the client uses */
export function clientOf(world: World, shop: Shop, random: Random): Client {
  return {
    world,
    shop,
    random,
    app: `/v1/apps/${shop.appId}`,
    unique: () => String((writes += 1)),
    send: senderOf(world, shop, () => random.pick(world.stack.clientUrls)),
  }
}

/** Sends requests and keeps a record of each. */
export function senderOf({ sent }: World, vendor: Vendor, gatewayUrl: () => string): Send {
  return async (asked, route, body, { apiKey = vendor.apiKey, headers } = {}) => {
    const from = Date.now()
    const [method, path] = route.split(' ')
    const request = {
      method: method!,
      redirect: 'manual',
      signal: AbortSignal.timeout(requestTimeoutMs),
      headers: {
        ...(apiKey !== null && { authorization: `Bearer ${apiKey}` }),
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    } as const
    const answer = await fetch(`${gatewayUrl()}${path}`, request)
      .then(async (response) => {
        const text = await response.text()
        return { status: response.status, body: (text === '' ? {} : JSON.parse(text)) as Sent['body'] }
      })
      .catch(() => ({ status: 0, body: {} }))
    const record: Sent = { asked, from, to: Date.now(), answered: answeredBy(answer.status), ...answer }
    sent.push(record)
    if (record.status === 0) await sleep(afterNoAnswerMs)
    return record
  }
}

function answeredBy(status: number): Answered {
  if (status >= 200 && status < 300) return 'acknowledged'
  return status >= 400 && status < 500 ? 'refused' : 'unknown'
}

export const acknowledged = ({ answered }: Sent) => answered === 'acknowledged'

/** A field of an answer that is a string. */
export const text = (sent: Sent, field: string) => String(sent.body[field])

const maxTries = 3

/** Repeats a request that had no answer. Some clients give up, so that it stays open whether it was executed. */
export async function untilAnswered({ world, random }: Client, once: () => Promise<Sent>): Promise<Sent> {
  let sent = await once()
  for (let tries = 1; tries < maxTries && sent.answered === 'unknown' && world.running; tries += 1) {
    if (random.chance(0.2)) break
    sent = await once()
  }
  return sent
}
