import { maxIdleMs } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import { measureWhenScraped } from '@licensing/process/measures'
import { Gauge } from 'prom-client'
import { closeDeadLetterAlerts } from '../alerts/open-alert-queries.ts'
import type { BillingDependencies, Stage } from '../dependencies.ts'
import { reachZeroCaps } from '../fees/spend-cap.ts'
import { purgeHandledEvents, retryDeadLettered } from '../inbox/inbox-queries.ts'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { ProcessorAsker } from './ask-processor.ts'
import { createDecideRound } from './decide/decide-purchases.ts'
import { backlog, countBacklog, listBusy } from '../queues/queue-queries.ts'
import { purgeUnlinkedFacts } from '../facts/fact-queries.ts'
import { createRecordRound } from '../inbox/processor-events.ts'
import { startResends } from '../effects/resend-effects.ts'
import { createSendRound } from '../effects/send-effects.ts'
import { purgeWaitingSaleFacts } from '../sale-events/sale-fact-queries.ts'
import { timing } from '../timing.ts'

export interface Stages {
  /** Runs a stage now: there may be work for it. */
  wake(stage: Stage): void
  stop(): Promise<void>
}

/** Runs the stages on every replica. Row locks and leases keep two replicas from taking the same row. */
export function startStages(deps: BillingDependencies): Stages {
  const loops: { stage: Stage; loop: Loop }[] = []
  const wake = (wanted: Stage) => {
    for (const { stage, loop } of loops) if (stage === wanted) loop.wake()
  }
  const start = (stage: Stage, round: () => Promise<number>, next: Stage[], name: string = stage) => {
    const work = async () => {
      const count = await round()
      if (count === 0) {
        const busy = await listBusy(deps.sql, [stage], maxIdleMs)
        return busy.length > 0 ? timing.poll : 'asleep'
      }
      for (const each of next) wake(each)
      return 0
    }
    loops.push({ stage, loop: startDatabaseLoop(name, deps.log, timing.poll, work) })
  }
  const asker = new ProcessorAsker(deps)
  start('ask', () => asker.round(), [])
  // There are two loops, so that the results of one batch are recorded while licensing works on the other.
  for (const ordinal of ['first', 'second']) start('send', createSendRound(deps), [], `send, the ${ordinal}`)
  start('decide', createDecideRound(deps), ['send', 'ask'])
  start('record', createRecordRound(deps), ['decide'])
  const others = [startQueueWatch(deps, wake), startUpkeep(deps), startResends(deps)]
  const endMeasuring = measureBacklog(deps)
  return {
    wake,
    async stop() {
      endMeasuring()
      await Promise.all([...loops.map(({ loop }) => loop), ...others].map((each) => each.stop()))
      await asker.stop()
    },
  }
}

/** Wakes the stages for rows of other replicas, and for rows that become due before it looks again. */
function startQueueWatch({ sql, log }: BillingDependencies, wake: (stage: Stage) => void): Loop {
  return startDatabaseLoop('queues', log, maxIdleMs, async () => {
    for (const stage of await listBusy(sql, ['record', 'decide', 'ask', 'send'], maxIdleMs)) wake(stage)
  })
}

const purgedTogether = 1_000

/** Deletes rows that are no longer needed, and reports spend caps of zero. */
function startUpkeep(deps: BillingDependencies): Loop {
  const { sql, log, wake } = deps
  let isFirst = true
  return startDatabaseLoop('upkeep', log, timing.upkeep, async () => {
    // A new version may understand events that an earlier version did not.
    if (isFirst && (await retryDeadLettered(sql)) > 0) wake('record')
    isFirst = false
    await closeDeadLetterAlerts(sql)
    await reachZeroCaps(deps)
    const events = await purgeHandledEvents(sql, timing.handledEventKept, purgedTogether)
    const facts = await purgeUnlinkedFacts(sql, timing.unlinkedFactKept, purgedTogether)
    const waiting = await purgeWaitingSaleFacts(sql, timing.waitingSaleFactKept, purgedTogether)
    return events + facts + waiting > 0 ? timing.poll : timing.upkeep
  })
}

const gauges = Object.entries(backlog).map(([name, { help }]) => new Gauge({ name, help }))

function measureBacklog({ sql, log }: BillingDependencies): () => void {
  return measureWhenScraped(log, 'billing', async () => {
    const counts = Object.values(await countBacklog(sql))
    for (const [at, gauge] of gauges.entries()) gauge.set(counts[at]!)
  })
}
