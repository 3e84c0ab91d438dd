import type { Asked, Sent } from '../outcome.ts'
import type { Random } from '../random.ts'
import type { Request } from './caller.ts'
import type { Shop, World } from './world.ts'

/** One of the concurrent clients. */
export interface Client {
  world: World
  shop: Shop
  random: Random
  /** A number, as text, that no other write of the storm uses. */
  unique(): string
  send(asked: Asked, method: Request['method'], path: string, extra?: Partial<Request>): Promise<Sent>
}

let writes = 0

/** @param shop the vendor whose API key the client uses */
export function clientOf(world: World, shop: Shop, random: Random): Client {
  return {
    world,
    shop,
    random,
    unique: () => String((writes += 1)),
    send: (asked, method, path, extra = {}) =>
      world.caller.send(asked, {
        gatewayUrl: random.pick(world.stack.gatewayUrls),
        apiKey: shop.apiKey,
        method,
        path,
        ...extra,
      }),
  }
}

export type Action = (client: Client) => Promise<unknown>

export const acknowledged = ({ answered }: Sent) => answered === 'acknowledged'

/** A field of an answer that is a string. */
export const text = (sent: Sent, field: string) => String(sent.body[field])
