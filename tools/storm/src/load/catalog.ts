import { setTimeout as sleep } from 'node:timers/promises'
import { acknowledged, text, type Action, type Client } from './client.ts'

/** Archives and restores one of the changing plans. */
export const changePlan: Action = async ({ app, shop, random, send }) => {
  const planId = random.pick(shop.changingPlanIds)
  const verb = random.chance(0.4) ? 'archive' : 'restore'
  await send({ do: verb, planId }, `POST ${app}/plans/${planId}/${verb}`)
}

/** Creates a plan, sometimes with a code that is taken, and renames it. */
export const makePlan: Action = async ({ app, shop: { appId }, random, unique, send }) => {
  const code = random.chance(0.2) ? 'steady' : `plan-${unique()}`
  const name = `Plan ${unique()}`
  const body = { code, name, entitlements: [{ key: 'seats', value: '5' }] }
  const made = await send({ do: 'create plan', appId, code, name }, `POST ${app}/plans`, body)
  if (!acknowledged(made)) return
  const [planId, renamed] = [text(made, 'id'), `Plan ${unique()}`]
  await send({ do: 'rename plan', planId, name: renamed }, `PATCH ${app}/plans/${planId}`, { name: renamed })
}

/** Makes something, and removes the oldest if there are more than `max`. */
async function makeAndRemove(
  client: Client,
  list: 'definitions' | 'keys' | 'endpoints',
  max: number,
  make: () => ReturnType<Client['send']>,
  remove: (id: string) => Promise<unknown>,
): Promise<void> {
  const made = await make()
  const ids = client.shop[list]
  if (acknowledged(made)) ids.push(text(made, 'id'))
  const id = ids.length > max ? ids.shift() : undefined
  if (id !== undefined) await remove(id)
}

export const define: Action = (client) => {
  const { app, shop, random, unique, send } = client
  const key = random.chance(0.2) ? 'seats' : `feature_${unique()}`
  const path = `${app}/entitlement-defs` as const
  return makeAndRemove(
    client,
    'definitions',
    10,
    () => send({ do: 'define', appId: shop.appId, key }, `POST ${path}`, { key, kind: 'feature' }),
    (definitionId) => send({ do: 'delete definition', definitionId }, `DELETE ${path}/${definitionId}`),
  )
}

export const changeKeys: Action = (client) => {
  const { shop, unique, send } = client
  const name = `key ${unique()}`
  return makeAndRemove(
    client,
    'keys',
    4,
    () =>
      send({ do: 'create key', accountId: shop.accountId, name }, 'POST /v1/api-keys', {
        name,
        scopes: ['read'],
      }),
    (keyId) => send({ do: 'revoke key', keyId }, `DELETE /v1/api-keys/${keyId}`),
  )
}

export const changeEndpoints: Action = (client) => {
  const { app, world, shop, unique, send } = client
  const url = `https://localhost:${world.stack.links.get('notifier>steady')!.port}/steady/${unique()}`
  const path = `${app}/webhook-endpoints` as const
  return makeAndRemove(
    client,
    'endpoints',
    4,
    () =>
      send({ do: 'create endpoint', appId: shop.appId, url }, `POST ${path}`, {
        url,
        subscribed_events: '*',
      }),
    (endpointId) => send({ do: 'delete endpoint', endpointId }, `DELETE ${path}/${endpointId}`),
  )
}

const addressOf = ({ app }: Client, endpointId: string) => `${app}/webhook-endpoints/${endpointId}` as const

/** Changes an endpoint: its address, description and header, its secret, or a pause that ends. */
export const editEndpoint: Action = async (client) => {
  const { world, shop, random, unique, send } = client
  const endpointId = random.pick(shop.endpoints)
  if (endpointId === undefined) return
  const address = addressOf(client, endpointId)
  const what = random.weighted({ edit: 4, pause: 2, rotate: 1 })
  if (what === 'edit') {
    const made = world.sent.find(
      ({ asked, body }) => asked.do === 'create endpoint' && body['id'] === endpointId,
    )
    if (made?.asked.do !== 'create endpoint') return
    const [url, description, header] = [`${made.asked.url}?v=${unique()}`, unique(), unique()]
    const body = { url, description, headers: { 'x-storm': header } }
    await send({ do: 'change endpoint', endpointId, url, description, header }, `PATCH ${address}`, body)
  } else if (what === 'rotate') {
    await send({ do: 'rotate', endpointId }, `POST ${address}/rotate-secret`, { overlap_hours: 1 })
  } else {
    await send({ do: 'change endpoint', endpointId }, `PATCH ${address}`, { paused: true })
    await sleep(random.between(500, 3_000))
    await resume(client, endpointId)
  }
}

async function resume(client: Client, endpointId: string): Promise<void> {
  const once = () =>
    client.send({ do: 'change endpoint', endpointId }, `PATCH ${addressOf(client, endpointId)}`, {
      paused: false,
    })
  while ((await once()).answered === 'unknown');
}

/** Ends the pauses of all endpoints of a vendor. */
export async function resumeAll(client: Client): Promise<void> {
  const made = client.world.sent.filter(
    (sent) =>
      sent.asked.do === 'create endpoint' && sent.asked.appId === client.shop.appId && acknowledged(sent),
  )
  for (const sent of made) await resume(client, text(sent, 'id'))
}

const useEndpoint =
  (what: 'rotate' | 'test', verb: string): Action =>
  async ({ app, shop, random, send }) => {
    const endpointId = random.pick(shop.endpoints)
    if (endpointId === undefined) return
    await send({ do: what, endpointId }, `POST ${app}/webhook-endpoints/${endpointId}/${verb}`)
  }

export const rotateSecret = useEndpoint('rotate', 'rotate-secret')
export const sendTestEvent = useEndpoint('test', 'test')

/** Raises and lowers the cap of one vendor. Only one client sets it. */
export const setCap: Action = async ({ shop: { accountId }, random, send }) => {
  const capMinor = random.pick([null, 1_000_000_000, 60])
  const body = { cap_minor: capMinor, currency: 'usd' }
  await send({ do: 'cap', accountId, capMinor }, 'PUT /v1/spend-cap', body)
}
