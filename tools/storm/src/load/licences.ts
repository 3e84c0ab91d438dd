import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceVerb } from '@licensing/proto/closed-sets'
import type { Sent } from '../outcome.ts'
import { acknowledged, text, type Action, type Client } from './client.ts'

// Clients change only the latest licences, so that several clients often change the same licence at once.
const latest = 8
const maxTries = 3
const limited = { max_activations: 3 }
// Some leases end during the storm.
const floating = { max_concurrent: 2, lease_minutes: 1 }

/** Issues a licence. Without an answer, it tries again with the same idempotency key. */
export const issue: Action = async (client) => {
  const { shop, random } = client
  const number = client.unique()
  const planId = random.chance(0.3) ? random.pick(shop.changingPlanIds) : shop.steadyPlanId
  const key = `issue-${number}`
  const externalRef = `customer-${number}`
  const body = {
    external_ref: externalRef,
    plan_id: planId,
    ...(random.chance(0.6) && { restrictions: random.pick([limited, limited, floating]) }),
    ...(random.chance(0.1) && { expires_on: new Date(Date.now() + 8_000).toISOString() }),
  }
  const sent = await untilAnswered(client, () =>
    client.send(
      { do: 'issue', appId: shop.appId, key, externalRef, planId },
      'POST',
      `/v1/apps/${shop.appId}/licences`,
      { headers: { 'idempotency-key': key }, body },
    ),
  )
  if (acknowledged(sent)) shop.licences.push({ id: text(sent, 'id'), key: text(sent, 'key') })
}

async function untilAnswered({ world, random }: Client, once: () => Promise<Sent>): Promise<Sent> {
  let sent = await once()
  for (let tries = 1; tries < maxTries && sent.answered === 'unknown' && world.running; tries += 1) {
    // Some clients give up, so that it stays open whether the licence was issued.
    if (random.chance(0.2)) break
    sent = await once()
  }
  return sent
}

function change(client: Client, verb: LicenceVerb, licenceId: string): Promise<Sent> {
  return client.send({ do: 'verb', verb, licenceId }, 'POST', `/v1/licences/${licenceId}/${verb}`)
}

/** One verb on one of the latest licences, or two or three at once. */
export const changeLicence: Action = async (client) => {
  const { shop, random } = client
  const licence = random.pick(shop.licences.slice(-latest))
  if (licence === undefined) return
  // Verbs that end a licence are rare, so that other verbs have licences to race for.
  const wanted = (): LicenceVerb =>
    random.chance(0.8) ? random.pick(['suspend', 'reactivate'] as const) : random.pick(closedSets.licenceVerb)
  const atOnce = random.chance(0.4) ? random.between(2, 3) : 1
  await Promise.all(Array.from({ length: atOnce }, () => change(client, wanted(), licence.id)))
}

/** Imports a few licences, some of which have been imported before. */
export const importLicences: Action = async (client) => {
  const { shop, random } = client
  const fresh = Array.from({ length: random.between(1, 5) }, () => {
    const number = client.unique()
    return { legacyKey: `legacy-${number}`, externalRef: `imported-${number}` }
  })
  const known = shop.legacyKeys
    .slice(-2)
    .map((legacyKey) => ({ legacyKey, externalRef: legacyKey.replace('legacy', 'imported') }))
  const planId = random.chance(0.3) ? random.pick(shop.changingPlanIds) : shop.steadyPlanId
  const items = [...fresh, ...known].map((item) => ({ ...item, planId }))
  const body = {
    items: items.map((item) => ({
      legacy_key: item.legacyKey,
      external_ref: item.externalRef,
      plan_id: item.planId,
    })),
  }
  const sent = await untilAnswered(client, () =>
    client.send(
      { do: 'import', appId: shop.appId, items },
      'POST',
      `/v1/apps/${shop.appId}/licences/import`,
      {
        body,
      },
    ),
  )
  if (acknowledged(sent)) shop.legacyKeys.push(...fresh.map(({ legacyKey }) => legacyKey))
}

export const migrate: Action = async (client) => {
  const { shop, random } = client
  const legacyKey = random.pick(shop.legacyKeys.slice(-20))
  if (legacyKey === undefined) return
  await client.send(
    { do: 'migrate', appId: shop.appId, legacyKey },
    'POST',
    `/v1/apps/${shop.appId}/migrate`,
    {
      apiKey: null,
      body: { legacy_key: legacyKey },
    },
  )
}
