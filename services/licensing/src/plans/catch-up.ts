import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { hasReached, streamEnds } from '@licensing/events/caught-up'
import type { Nats } from '@licensing/events/connection'
import { startLoop } from '@licensing/process/loop'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'

const pageSize = 200
const patienceMs = 2_000
const retryMs = 250

export interface CatchUp {
  /** Rejects until all plan copies are in. */
  probe(): void
  stop(): Promise<void>
}

/**
 * Brings the plan copies up to what they are at this start: read from catalog where it answers, else as soon as the
 * consumer has reached where catalog's stream ended at this start. Until then the service is not ready: it would
 * refuse plans that exist.
 */
export function startCatchUp(deps: LicensingDependencies & { nats: Nats }): CatchUp {
  const reached = streamEndsReached(deps.sql, deps.nats)
  let done = false
  const loop = startLoop({
    work: async () => {
      done = (await readAllCopies(deps)) || (await reached())
      return done ? 'done' : retryMs
    },
    everyMs: retryMs,
    failed: (error) => deps.log.error({ err: error }, 'catching up failed, trying again'),
    isOutage: isDatabaseOutage,
  })
  return {
    probe() {
      if (!done) throw new Error('plan copies are not complete yet')
    },
    stop: () => loop.stop(),
  }
}

/** @returns false where catalog, or the database, does not answer */
async function readAllCopies({ catalog, outbox, log }: LicensingDependencies): Promise<boolean> {
  try {
    for (let afterId = ''; ;) {
      const page = await catalog.listPlanCopies({ afterId, limit: pageSize }, { timeoutMs: patienceMs })
      await outbox.transaction((tx) => applyPlanCopies(tx, page.plans))
      const last = page.plans.at(-1)
      if (!page.hasMore || !last) return true
      afterId = last.id
    }
  } catch (error) {
    log.debug({ err: error }, 'plan copies could not be read from catalog')
    return false
  }
}

function streamEndsReached(sql: Database, nats: Nats): () => Promise<boolean> {
  let ends: Map<number, bigint> | undefined
  return async () => {
    if (!nats.connected()) return false
    try {
      ends ??= await streamEnds(await nats.connection.jetstreamManager(), 'catalog')
      return await hasReached(sql, 'catalog', ends)
    } catch {
      return false
    }
  }
}
