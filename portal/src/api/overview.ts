import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'

export type Alert = Schemas['Alert']

/** The numbers of days that the overview can show. */
export const periods = ['7', '30', '90'] as const
export type Period = (typeof periods)[number]

/** The newest alerts of all applications that the key may use. */
export const alertsQuery = queryOptions({
  queryKey: ['alerts'],
  queryFn: async ({ signal }) => (await api.get('/v1/alerts', { query: { limit: 20 }, signal })).data,
  refetchInterval: 15_000,
})

/** The values of a day, by metric. */
interface MetricValues {
  licences: { issued: number; imported: number; created: number; active: number }
  deliveries: { delivered: number; failed_attempts: number; p50_ms: number | null; p95_ms: number | null }
  payments: Record<string, { count: number; gross_minor: number; refunded_minor: number; fee_minor: number }>
}

export interface Day<Metric extends keyof MetricValues> {
  at: string
  values: MetricValues[Metric]
}

/** The last days, today included. */
export const metricQuery = <Metric extends keyof MetricValues>(appId: string, metric: Metric, days: Period) =>
  queryOptions({
    queryKey: ['metrics', appId, metric, days],
    queryFn: async ({ signal }) => {
      const query = { metric, from: date(Number(days) - 1), to: date(0), step: 'day' as const }
      const path = { app_id: appId }
      const { points } = await api.get('/v1/apps/{app_id}/metrics', { path, query, signal })
      // The API document has one type for the points of all metrics.
      return points as unknown as Day<Metric>[]
    },
    enabled: appId !== '',
    refetchInterval: 10_000,
  })

function date(daysAgo: number): string {
  return new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10)
}
