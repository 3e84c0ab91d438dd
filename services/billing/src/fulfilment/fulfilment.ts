import type { Loop } from '@licensing/process/loop'
import type { BillingDependencies } from '../dependencies.ts'
import { startRounds } from '../start-rounds.ts'
import { ProcessorAsker } from './ask-processor.ts'
import { carryOutRounds } from './carry-out.ts'
import { decideRounds } from './decide-due.ts'
import { startMeasuring } from './measure.ts'
import { recordRounds } from './record-events.ts'
import type { Stage } from './stage.ts'
import { timing } from './timing.ts'
import { startUpkeep } from './upkeep.ts'

export interface Fulfilment {
  /** There may be something to do. */
  wake(stage: Stage): void
  stop(): Promise<void>
}

/** Works through what happened, on every replica: what one has taken, no other takes. */
export function startFulfilment(deps: BillingDependencies): Fulfilment {
  const loops: { stage: Stage; loop: Loop }[] = []
  const wake = (wanted: Stage) => {
    for (const { stage, loop } of loops) if (stage === wanted) loop.wake()
  }
  const start = (stage: Stage, round: () => Promise<number>, next: Stage[], name: string = stage) => {
    const work = async () => {
      const taken = await round()
      if (taken === 0) return timing.poll
      for (const each of next) wake(each)
      return 0
    }
    loops.push({ stage, loop: startRounds(name, deps.log, timing.poll, work) })
  }
  const asker = new ProcessorAsker(deps)
  start('ask', () => asker.round(() => wake('ask')), [])
  // Two at once: while licensing works on one batch, what came of another is recorded.
  for (const one of ['first', 'second']) start('carry out', carryOutRounds(deps), [], `carry out, the ${one}`)
  start('decide', decideRounds(deps), ['carry out', 'ask'])
  start('record', recordRounds(deps), ['decide'])
  const others = [startMeasuring(deps), startUpkeep(deps)]
  return {
    wake,
    async stop() {
      await Promise.all([...loops.map(({ loop }) => loop), ...others].map((each) => each.stop()))
      await asker.stop()
    },
  }
}
