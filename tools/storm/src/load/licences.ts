import { closedSets, type LicenceVerb } from '@licensing/proto/closed-sets'
import { acknowledged, text, untilAnswered, type Action, type Client } from './client.ts'

// Clients change only the latest licences, so that several clients often change the same licence at once.
const latest = 8
const limited = { max_activations: 3 }
// Some leases end during the storm.
const floating = { max_concurrent: 2, lease_minutes: 1 }

export const somePlan = ({ shop, random }: Client) =>
  random.chance(0.3) ? random.pick(shop.changingPlanIds) : shop.steadyPlanId

/** Issues a licence. Without an answer, it tries again with the same idempotency key. */
export const issue: Action = async (client) => {
  const { app, shop, random } = client
  const number = client.unique()
  const planId = somePlan(client)
  const [key, externalRef] = [`issue-${number}`, `customer-${number}`]
  const body = {
    external_ref: externalRef,
    plan_id: planId,
    ...(random.chance(0.6) && { restrictions: random.pick([limited, limited, floating]) }),
    ...(random.chance(0.1) && { expires_on: new Date(Date.now() + 8_000).toISOString() }),
  }
  const asked = { do: 'issue', appId: shop.appId, key, externalRef, planId } as const
  const sent = await untilAnswered(client, () =>
    client.send(asked, `POST ${app}/licences`, body, { headers: { 'idempotency-key': key } }),
  )
  if (acknowledged(sent)) shop.licences.push({ id: text(sent, 'id'), key: text(sent, 'key') })
}

/** One verb on one of the latest licences, or two or three at once. */
export const changeLicence: Action = async ({ shop, random, send }) => {
  const licence = random.pick(shop.licences.slice(-latest))
  if (licence === undefined) return
  const licenceId = licence.id
  // Verbs that end a licence are rare, so that other verbs have licences to race for.
  const wanted = (): LicenceVerb =>
    random.chance(0.8) ? random.pick(['suspend', 'reactivate'] as const) : random.pick(closedSets.licenceVerb)
  const verbs = Array.from({ length: random.chance(0.4) ? random.between(2, 3) : 1 }, wanted)
  await Promise.all(
    verbs.map((verb) => send({ do: 'verb', verb, licenceId }, `POST /v1/licences/${licenceId}/${verb}`)),
  )
}

/** Imports a few licences, some of which have been imported before. */
export const importLicences: Action = async (client) => {
  const { app, shop, random } = client
  const fresh = Array.from({ length: random.between(1, 5) }, () => `legacy-${client.unique()}`)
  const planId = somePlan(client)
  const items = [...fresh, ...shop.legacyKeys.slice(-2)].map((legacyKey) => {
    return { legacyKey, externalRef: legacyKey.replace('legacy', 'imported'), planId }
  })
  const body = {
    items: items.map(({ legacyKey, externalRef }) => {
      return { legacy_key: legacyKey, external_ref: externalRef, plan_id: planId }
    }),
  }
  const sent = await untilAnswered(client, () =>
    client.send({ do: 'import', appId: shop.appId, items }, `POST ${app}/licences/import`, body),
  )
  if (acknowledged(sent)) shop.legacyKeys.push(...fresh)
}

export const migrate: Action = async ({ app, shop, random, send }) => {
  const legacyKey = random.pick(shop.legacyKeys.slice(-20))
  if (legacyKey === undefined) return
  const asked = { do: 'migrate', appId: shop.appId, legacyKey } as const
  await send(asked, `POST ${app}/migrate`, { legacy_key: legacyKey }, { apiKey: null })
}
