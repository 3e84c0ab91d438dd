import type { LicensingBackend, Schemas } from '@licensing/sdk/backend'

export type Definition = Schemas['EntitlementDefinition']
export type Plan = Schemas['Plan']

/** What an application sells: its definitions, and its plans with their overrides by key. */
export interface Catalogue {
  readonly definitions: ReadonlyMap<string, Definition>
  readonly plans: ReadonlyMap<string, Plan & { readonly values: ReadonlyMap<string, string> }>
}

export async function readCatalogue(backend: LicensingBackend, appId: string): Promise<Catalogue> {
  const path = { app_id: appId }
  const definitions = new Map<string, Definition>()
  const keys = new Map<string, string>()
  for await (const definition of backend.rows('/v1/apps/{app_id}/entitlement-defs', { path })) {
    definitions.set(definition.key, definition)
    keys.set(definition.id, definition.key)
  }
  const plans = new Map<string, Plan & { values: Map<string, string> }>()
  for await (const plan of backend.rows('/v1/apps/{app_id}/plans', { path })) {
    const values = plan.entitlements.flatMap(({ entitlement_def_id: id, value }): [string, string][] => {
      const key = keys.get(id)
      return key === undefined ? [] : [[key, value]]
    })
    plans.set(plan.code, { ...plan, values: new Map(values) })
  }
  return { definitions, plans }
}
