import type { Stack } from '@licensing/test-support/stack-shape'

/** Four definitions, as a usual application has. */
export async function givenDefinitions({ api, appId }: Stack): Promise<void> {
  for (const key of ['feature_a', 'feature_b', 'feature_c', 'feature_d']) {
    await api.post(`/v1/apps/${appId}/entitlement-defs`, { body: { key, kind: 'feature' } })
  }
}

/** A plan with this code. @returns its id */
export async function givenPlan({ api, appId }: Stack, code: string): Promise<string> {
  const plan = await api.post<{ id: string }>(`/v1/apps/${appId}/plans`, { body: { name: code, code } })
  if (plan.status !== 201) throw new Error(`no plan: ${JSON.stringify(plan.body)}`)
  return plan.body.id
}

/** Licences on a plan, imported. @returns their ids */
export async function givenLicences(
  { api, appId }: Stack,
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

/** Headers of a request with the stack's key. */
export function withKey({ apiKey }: Stack): Record<string, string> {
  return { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' }
}
