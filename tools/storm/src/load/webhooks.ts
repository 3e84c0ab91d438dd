import { acknowledged, text, type Action } from './client.ts'

const most = 4

/** Adds an endpoint, and deletes the oldest where there are several. */
export const changeEndpoints: Action = async (client) => {
  const { world, shop } = client
  const url = `https://localhost:${world.stack.links.get('notifier>steady')!.port}/steady/${client.unique()}`
  const path = `/v1/apps/${shop.appId}/webhook-endpoints`
  const made = await client.send({ do: 'create endpoint', appId: shop.appId, url }, 'POST', path, {
    body: { url, subscribed_events: '*' },
  })
  if (acknowledged(made)) shop.endpoints.push(text(made, 'id'))
  const endpointId = shop.endpoints.length > most ? shop.endpoints.shift() : undefined
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
