import type { Outcome } from '../outcome.ts'
import { acknowledged, type Action } from './client.ts'

interface Page {
  data: { id: string; sequence: number }[]
  next_cursor: string | null
  next_after: number
}

const positions = new WeakMap<Outcome['feedReads'][number], number>()

/** Follows the account's feed, as a consumer that polls does. */
export const readFeed: Action = async ({ world, shop, send }) => {
  let read = world.feedReads.find(({ accountId }) => accountId === shop.accountId)
  if (!read) world.feedReads.push((read = { accountId: shop.accountId, events: [] }))
  const after = positions.get(read) ?? 0
  const path = `/v1/events?after=${after}&limit=100` as const
  const sent = await send({ do: 'read', path }, `GET ${path}`)
  if (!acknowledged(sent) || (positions.get(read) ?? 0) !== after) return
  const { data, next_after: next } = sent.body as unknown as Page
  positions.set(read, next)
  read.events.push(...data.map(({ id, sequence }) => ({ id, sequence })))
}

/** Reads the list of licences to its end. It stops at a page without an answer. */
export const walkLicences: Action = async ({ app, world, shop, send }) => {
  const from = Date.now()
  const ids: string[] = []
  for (let cursor: string | null = ''; cursor !== null && world.running;) {
    const path = `${app}/licences?limit=50${cursor && `&cursor=${encodeURIComponent(cursor)}`}` as const
    const sent = await send({ do: 'read', path }, `GET ${path}`)
    if (!acknowledged(sent)) return
    const page = sent.body as unknown as Page
    ids.push(...page.data.map(({ id }) => id))
    cursor = page.next_cursor
  }
  if (world.running) world.walks.push({ appId: shop.appId, from, ids })
}

export const look: Action = async ({ app, shop, random, send }) => {
  const licence = random.pick(shop.licences)
  const path = random.pick([
    `${app}/plans`,
    `${app}/payments`,
    `${app}/webhook-deliveries?status=pending`,
    `/v1/fees`,
    ...(licence ? ([`/v1/licences/${licence.id}`, `/v1/licences/${licence.id}/history`] as const) : []),
  ] as const)
  await send({ do: 'read', path }, `GET ${path}`)
}
