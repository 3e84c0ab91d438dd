import { LicensingApiError } from '@licensing/sdk/backend'
import { patientApi } from './client.ts'
import { actOn } from './licences.ts'
import { queryClient } from './query-client.ts'

/** Concurrent calls of one browser. Further calls would only wait at the service. */
const AT_ONCE = 6
const MAX_REFUSALS_SHOWN = 5

interface Report {
  (change: { done?: number; total?: number; failed?: number; refusals?: readonly string[] }): void
}

export async function isAnySuspendedByArchive(
  appId: string,
  planId: string,
  signal: AbortSignal,
): Promise<boolean> {
  for await (const _ of suspendedByArchive(appId, planId, signal)) return true
  return false
}

/** Reactivates the licences that the archive suspended. If it is started again, it continues with the rest. */
export async function reactivateAll(
  appId: string,
  planId: string,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const ids: string[] = []
  for await (const id of suspendedByArchive(appId, planId, signal)) {
    ids.push(id)
    if (ids.length % 200 === 0) report({ total: ids.length })
  }
  report({ total: ids.length })
  const next = ids.values()
  const refusals: string[] = []
  let done = 0
  let failed = 0
  const reactivate = async () => {
    for (const id of next) {
      if (signal.aborted) return
      try {
        await actOn(id, 'reactivate', patientApi)
      } catch (error) {
        if (!(error instanceof LicensingApiError) || error.status !== 409) throw error
        failed += 1
        if (refusals.length < MAX_REFUSALS_SHOWN) refusals.push(error.message)
      }
      done += 1
      report({ done, failed, refusals: [...refusals] })
    }
  }
  try {
    await Promise.all(Array.from({ length: AT_ONCE }, reactivate))
  } finally {
    void queryClient.invalidateQueries()
  }
}

async function* suspendedByArchive(appId: string, planId: string, signal: AbortSignal) {
  const query = { status: 'suspended' as const, plan: planId, limit: 200 }
  const path = { app_id: appId }
  for await (const licence of patientApi.rows('/v1/apps/{app_id}/licences', { path, query, signal })) {
    if (licence.status_reason === 'plan_archived') yield licence.id
  }
}
