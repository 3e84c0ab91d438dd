import { scaled } from './bench-scale.ts'
import { startBed } from './notifier/bed.ts'
import { costOfSupport } from './notifier/cost-of-support.ts'
import { ours, perCpuSecond, perRow } from './notifier/deliveries-per-cpu-second.ts'
import type { Cost } from './notifier/deliveries-per-cpu-second.ts'
import { bareLoop, graphileWorker, pgBoss } from './notifier/job-queues.ts'
import { latency } from './notifier/latency.ts'
import { atLeast, beside } from './report.ts'
import type { Figure, Section } from './report.ts'

/** Deliveries per CPU second, beside other ways to do the same; and how soon an event arrives. */
export async function webhooksSpeed(): Promise<Section> {
  const count = scaled(40_000, 500)
  const fewer = Math.round(count / 5)
  await using bed = await startBed()
  const costs = {
    bare: await bareLoop(bed, count),
    plain: await perRow(bed, fewer),
    graphileWorker: await graphileWorker(bed, fewer),
    pgBoss: await pgBoss(bed, fewer),
    ours: await ours(bed, count),
  }
  const figure = (name: string, cost: Cost): Figure => ({ name, value: perCpuSecond(cost), unit: unitOf })
  const bare = figure('bare loop of signed posts', costs.bare)
  const plain = figure('claimed, sent and written row by row', costs.plain)
  const value = perCpuSecond(costs.ours)
  return {
    title: 'Webhooks: deliveries per CPU second (sender, PostgreSQL and NATS together; HTTPS on loopback)',
    figures: [
      bare,
      plain,
      beside('graphile-worker', perCpuSecond(costs.graphileWorker), unitOf, plain),
      beside('pg-boss', perCpuSecond(costs.pgBoss), unitOf, plain),
      atLeast('the notifier', value, unitOf, plain, 5),
      atLeast('the notifier', value, unitOf, bare, 0.25),
      ...(await latency()),
      ...(await costOfSupport()),
    ],
    notes: Object.entries(costs).map(([name, cost]) => describe(name, cost)),
  }
}

const unitOf = '/CPU s'

function describe(name: string, cost: Cost): string {
  const { deliveries, seconds, nodeMicroseconds, postgresMicroseconds, natsMicroseconds } = cost
  const parts = [nodeMicroseconds, postgresMicroseconds, natsMicroseconds].map((each) => Math.round(each))
  return `${name}: ${deliveries} in ${seconds.toFixed(1)} s; µs each of sender, PostgreSQL, NATS: ${parts.join(', ')}`
}
