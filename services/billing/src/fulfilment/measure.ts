import type { Loop } from '@licensing/process/loop'
import { Gauge } from 'prom-client'
import type { BillingDependencies } from '../dependencies.ts'
import { startRounds } from '../start-rounds.ts'
import { countBacklog } from './inbox-queries.ts'
import type { Backlog } from './inbox-queries.ts'
import { timing } from './timing.ts'

const gauges: Record<keyof Backlog, Gauge> = {
  waiting: new Gauge({ name: 'processor_events_waiting', help: 'Processor events not recorded yet' }),
  parked: new Gauge({
    name: 'processor_events_parked',
    help: 'Processor events that are not understood or cannot be stored: licensing-admin processor-events list',
  }),
  due: new Gauge({
    name: 'purchases_due',
    help: 'Purchases about which there is something to decide, now or later',
  }),
  effects: new Gauge({
    name: 'purchases_carrying',
    help: 'Purchases whose effects licensing has not been sent yet',
  }),
  questions: new Gauge({
    name: 'processor_questions_waiting',
    help: 'Questions that the processor has not answered yet',
  }),
}

/** At all times, by a loop of its own: a backlog is what they are for. */
export function startMeasuring({ sql, log }: BillingDependencies): Loop {
  return startRounds('measuring', log, timing.measure, async () => {
    const backlog = await countBacklog(sql)
    for (const name of Object.keys(gauges) as (keyof Backlog)[]) gauges[name].set(backlog[name])
  })
}
