import { acknowledged, text, type Action } from './client.ts'

/** Archives and restores one of the changing plans. */
export const changePlan: Action = async (client) => {
  const { shop, random } = client
  const planId = random.pick(shop.changingPlanIds)
  const verb = random.chance(0.4) ? 'archive' : 'restore'
  await client.send({ do: verb, planId }, 'POST', `/v1/apps/${shop.appId}/plans/${planId}/${verb}`)
}

/** Creates a plan, sometimes with a code that is taken, and renames it. */
export const makePlan: Action = async (client) => {
  const { shop, random } = client
  const code = random.chance(0.2) ? 'steady' : `plan-${client.unique()}`
  const name = `Plan ${client.unique()}`
  const made = await client.send(
    { do: 'create plan', appId: shop.appId, code, name },
    'POST',
    `/v1/apps/${shop.appId}/plans`,
    { body: { code, name, entitlements: [{ key: 'seats', value: '5' }] } },
  )
  if (!acknowledged(made)) return
  const planId = text(made, 'id')
  const renamed = `Plan ${client.unique()}`
  await client.send(
    { do: 'rename plan', planId, name: renamed },
    'PATCH',
    `/v1/apps/${shop.appId}/plans/${planId}`,
    {
      body: { name: renamed },
    },
  )
}

export const define: Action = async (client) => {
  const { shop, random } = client
  const key = random.chance(0.2) ? 'seats' : `feature_${client.unique()}`
  const made = await client.send(
    { do: 'define', appId: shop.appId, key },
    'POST',
    `/v1/apps/${shop.appId}/entitlement-defs`,
    { body: { key, kind: 'feature' } },
  )
  if (acknowledged(made)) shop.definitions.push(text(made, 'id'))
  const definitionId = shop.definitions.length > 10 ? shop.definitions.shift() : undefined
  if (definitionId === undefined) return
  const path = `/v1/apps/${shop.appId}/entitlement-defs/${definitionId}`
  await client.send({ do: 'delete definition', definitionId }, 'DELETE', path)
}

/** Makes an API key and, later, revokes it. */
export const changeKeys: Action = async (client) => {
  const { shop } = client
  const name = `key ${client.unique()}`
  const made = await client.send(
    { do: 'create key', accountId: shop.accountId, name },
    'POST',
    '/v1/api-keys',
    {
      body: { name, scopes: ['read'] },
    },
  )
  if (acknowledged(made)) shop.keys.push(text(made, 'id'))
  const keyId = shop.keys.length > 4 ? shop.keys.shift() : undefined
  if (keyId === undefined) return
  await client.send({ do: 'revoke key', keyId }, 'DELETE', `/v1/api-keys/${keyId}`)
}
