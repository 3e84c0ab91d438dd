import { scaled } from './bench-scale.ts'
import { startTestBed } from './notifier/test-bed.ts'
import { ours, perCpuSecond, perRow, type Cost } from './notifier/deliveries-per-cpu-second.ts'
import { bareLoop } from './notifier/bare-loop.ts'
import { latency } from './notifier/latency.ts'
import { atLeast, type Figure, type Section } from './report.ts'

/** Deliveries per CPU second, compared with a usual sender and with bare posts; and how soon an event arrives. */
export async function webhooksSpeed(): Promise<Section> {
  const count = scaled(40_000, 500)
  await using bed = await startTestBed()
  const costs = {
    bare: await bareLoop(bed, count),
    plain: await perRow(bed, Math.round(count / 5)),
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
      atLeast('the notifier', value, unitOf, plain, 5),
      atLeast('the notifier', value, unitOf, bare, 0.25),
      ...(await latency()),
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
