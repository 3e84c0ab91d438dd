import type { Stack } from '@licensing/test-support/stack-shape'

type Account = Pick<Stack, 'api' | 'appId'>

/** Creates four definitions, as in a typical application. */
export async function givenDefinitions({ api, appId }: Account): Promise<void> {
  for (const key of ['feature_a', 'feature_b', 'feature_c', 'feature_d']) {
    await api.post(`/v1/apps/${appId}/entitlement-defs`, { body: { key, kind: 'feature' } })
  }
}

/** Creates a plan with this code. @returns its id */
export async function givenPlan({ api, appId }: Account, code: string): Promise<string> {
  const plan = await api.post<{ id: string }>(`/v1/apps/${appId}/plans`, { body: { name: code, code } })
  if (plan.status !== 201) throw new Error(`no plan: ${JSON.stringify(plan.body)}`)
  return plan.body.id
}

/** Imports licences on a plan. @returns their ids */
export async function givenLicences(
  { api, appId }: Account,
  planId: string,
  count: number,
  name: string,
): Promise<string[]> {
  const ids: string[] = []
  while (ids.length < count) {
    const items = Array.from({ length: Math.min(500, count - ids.length) }, (_, at) => ({
      legacy_key: `${name}-${ids.length + at}`,
      external_ref: `${name}-${ids.length + at}`,
      plan_id: planId,
    }))
    const answer = await api.post<{ items: { licence_id: string }[] }>(`/v1/apps/${appId}/licences/import`, {
      body: { items },
    })
    if (answer.status !== 200) throw new Error(`not imported: ${JSON.stringify(answer.body)}`)
    ids.push(...answer.body.items.map((item) => item.licence_id))
  }
  return ids
}

/** An installed product with its token. */
export interface Installation {
  id: string
  token: string
  body: { licence_key: string; fingerprint: string; host: string; product_version: string }
}

/** Activates a product on each of `count` licences. */
export async function givenInstallations(
  stack: Stack,
  planId: string,
  count: number,
): Promise<Installation[]> {
  const ids = await givenLicences(stack, planId, count, 'installed')
  return Promise.all(
    ids.map(async (id, n) => {
      const licence = await stack.api.get<{ key: string }>(`/v1/licences/${id}`)
      const host = `machine-${n}.example.com`
      const body = { licence_key: licence.body.key, fingerprint: host, host, product_version: '1.0' }
      const made = await stack.api.post<{ activation_id: string; token: string }>('/v1/activations', {
        body,
        key: null,
      })
      return { id: made.body.activation_id, token: made.body.token, body }
    }),
  )
}

/** Headers of a request with the stack's key. */
export function withKey({ apiKey }: Pick<Stack, 'apiKey'>): Record<string, string> {
  return { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
}
