import type { FeedRead } from '../outcome.ts'
import { acknowledged, text, type Action, type Client } from './client.ts'

interface Page {
  data: { id: string; sequence: number }[]
  next_cursor: string | null
  next_after: number
}

const positions = new WeakMap<FeedRead, number>()

/** Follows the account's feed, as a consumer that polls does. */
export const readFeed: Action = async (client) => {
  const { world, shop } = client
  const read = world.feedReads.find(({ accountId }) => accountId === shop.accountId) ?? newRead(client)
  const after = positions.get(read) ?? 0
  const path = `/v1/events?after=${after}&limit=100`
  const sent = await client.send({ do: 'read', path }, 'GET', path)
  if (!acknowledged(sent) || positions.get(read) !== after) return
  const { data, next_after: next } = sent.body as unknown as Page
  positions.set(read, next)
  read.events.push(...data.map(({ id, sequence }) => ({ id, sequence })))
}

function newRead({ world, shop }: Client): FeedRead {
  const read: FeedRead = { accountId: shop.accountId, events: [] }
  positions.set(read, 0)
  world.feedReads.push(read)
  return read
}

/** Reads the list of licences to its end. It stops at a page without an answer. */
export const walkLicences: Action = async (client) => {
  const { world, shop } = client
  const from = Date.now()
  const ids: string[] = []
  for (let cursor: string | null = ''; cursor !== null && world.running;) {
    const path = `/v1/apps/${shop.appId}/licences?limit=50${cursor && `&cursor=${encodeURIComponent(cursor)}`}`
    const sent = await client.send({ do: 'read', path }, 'GET', path)
    if (!acknowledged(sent)) return
    const page = sent.body as unknown as Page
    ids.push(...page.data.map(({ id }) => id))
    cursor = page.next_cursor
  }
  if (world.running) world.walks.push({ appId: shop.appId, from, ids })
}

export const look: Action = async (client) => {
  const { shop, random } = client
  const licence = random.pick(shop.licences)
  const path = random.pick([
    `/v1/apps/${shop.appId}/plans`,
    `/v1/apps/${shop.appId}/payments`,
    `/v1/apps/${shop.appId}/webhook-deliveries?status=pending`,
    `/v1/fees`,
    ...(licence ? [`/v1/licences/${licence.id}`, `/v1/licences/${licence.id}/history`] : []),
  ])
  await client.send({ do: 'read', path }, 'GET', path)
}

const max = 4

/** Adds an endpoint, and deletes the oldest if there are several. */
export const changeEndpoints: Action = async (client) => {
  const { world, shop } = client
  const url = `https://localhost:${world.stack.links.get('notifier>steady')!.port}/steady/${client.unique()}`
  const path = `/v1/apps/${shop.appId}/webhook-endpoints`
  const made = await client.send({ do: 'create endpoint', appId: shop.appId, url }, 'POST', path, {
    body: { url, subscribed_events: '*' },
  })
  if (acknowledged(made)) shop.endpoints.push(text(made, 'id'))
  const endpointId = shop.endpoints.length > max ? shop.endpoints.shift() : undefined
  if (endpointId === undefined) return
  await client.send({ do: 'delete endpoint', endpointId }, 'DELETE', `${path}/${endpointId}`)
}

export const rotateSecret: Action = async (client) => {
  const { shop, random } = client
  const endpointId = random.pick(shop.endpoints)
  if (endpointId === undefined) return
  const path = `/v1/apps/${shop.appId}/webhook-endpoints/${endpointId}/rotate-secret`
  await client.send({ do: 'rotate', endpointId }, 'POST', path)
}

export const sendTestEvent: Action = async (client) => {
  const { shop, random } = client
  const endpointId = random.pick(shop.endpoints)
  if (endpointId === undefined) return
  const path = `/v1/apps/${shop.appId}/webhook-endpoints/${endpointId}/test`
  await client.send({ do: 'test', endpointId }, 'POST', path)
}
