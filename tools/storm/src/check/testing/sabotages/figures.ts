import type { Sabotage } from './sabotage.ts'

export const figureSabotages: Sabotage[] = [
  {
    what: 'a counter that is off by one',
    change: ({ counters }) => void (counters[0]!.kept += 1),
    rule: 'counters are what is counted',
  },
  {
    what: 'a plan that miscounts its licences',
    change: ({ plans }) => void (plans[0]!.activeLicences -= 1),
    rule: 'plans count their active licences',
  },
  {
    what: 'an event left in an outbox',
    change: ({ leftovers }) => void (leftovers[0]!.count = 1),
    rule: 'nothing is left over',
  },
  {
    what: 'a consumer that is behind',
    change: ({ lags }) => void (lags[0]!.behind = 1),
    rule: 'nothing is left over',
  },
  {
    what: 'a request of more than a minute',
    change: ({ sent }) => void (sent[0]!.from -= 60_000),
    rule: 'no request takes over a minute',
  },
  {
    what: 'a process that is ready late',
    change: ({ ready }) => void (ready[0]!.afterMs = 10_001),
    rule: 'ready within ten seconds, or as long as the first start took',
  },
  {
    what: 'a process that is ready late on a slow machine',
    change: (outcome) =>
      Object.assign(outcome, { startMs: 12_000, ready: [{ process: 'x', afterMs: 12_001 }] }),
    rule: 'ready within ten seconds, or as long as the first start took',
  },
  {
    what: 'a process that is never ready',
    change: ({ ready }) => void (ready[0]!.afterMs = null),
    rule: 'ready within ten seconds, or as long as the first start took',
  },
  {
    what: 'a process that ended by itself',
    change: ({ crashes }) => void crashes.push({ process: 'billing-1', at: 1 }),
    rule: 'no process ends by itself',
  },
]
