import { LicensingApiError, type Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { allOf, api } from './client.ts'

export type Plan = Schemas['Plan']
export type EntitlementDefinition = Schemas['EntitlementDefinition']

/** All plans of an application. A quota keeps their number low. */
export const plansQuery = (appId: string) =>
  queryOptions({
    queryKey: ['plans', appId],
    queryFn: ({ signal }) =>
      allOf(api.rows('/v1/apps/{app_id}/plans', { path: { app_id: appId }, query: { limit: 200 }, signal })),
    enabled: appId !== '',
  })

export const planQuery = (appId: string, planId: string) =>
  queryOptions({
    queryKey: ['plan', appId, planId],
    queryFn: ({ signal }) =>
      api.get('/v1/apps/{app_id}/plans/{plan_id}', { path: { app_id: appId, plan_id: planId }, signal }),
    enabled: appId !== '',
  })

/** The fields that a vendor gives a plan, besides its values of entitlements. */
export type PlanFields = Omit<
  Plan,
  'id' | 'status' | 'active_licences' | 'entitlements' | 'created_at' | 'updated_at'
>

type PlanChange = Partial<Omit<PlanFields, 'metadata'> & { metadata: Record<string, string | null> }>

export function updatePlan(appId: string, planId: string, body: PlanChange): Promise<Plan> {
  return api.patch('/v1/apps/{app_id}/plans/{plan_id}', { path: { app_id: appId, plan_id: planId }, body })
}

export type Price = Schemas['Price']

/** Null if the plan has none. */
export const priceQuery = (appId: string, planId: string) =>
  queryOptions({
    queryKey: ['price', appId, planId],
    queryFn: async ({ signal }): Promise<Price | null> => {
      const path = { app_id: appId, plan_id: planId }
      try {
        return await api.get('/v1/apps/{app_id}/plans/{plan_id}/price', { path, signal })
      } catch (error) {
        if (error instanceof LicensingApiError && error.status === 404) return null
        throw error
      }
    },
  })

export const definitionsQuery = (appId: string) =>
  queryOptions({
    queryKey: ['entitlement-defs', appId],
    queryFn: async ({ signal }) => {
      const path = { app_id: appId }
      const rows = api.rows('/v1/apps/{app_id}/entitlement-defs', { path, query: { limit: 200 }, signal })
      return (await allOf(rows)).toSorted((a, b) => (a.key < b.key ? -1 : 1))
    },
    enabled: appId !== '',
  })
