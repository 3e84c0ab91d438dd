import { scaled } from './bench-scale.ts'
import { startTestBed } from './notifier/test-bed.ts'
import { ours, perCpuSecond, perRow, type Cost } from './notifier/deliveries-per-cpu-second.ts'
import { bareLoop, graphileWorker, pgBoss } from './notifier/job-queues.ts'
import { latency } from './notifier/latency.ts'
import { atLeast, beside, type Figure, type Section } from './report.ts'

/** Deliveries per CPU second, compared with other senders; and how soon an event arrives. */
export async function webhooksSpeed(): Promise<Section> {
  const count = scaled(40_000, 500)
  const fewer = Math.round(count / 5)
  await using bed = await startTestBed()
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

const pairs = 4

/**
 * The extra cost of counting deliveries and of indexes by event and by licence: the notifier is compared with one that has
 * neither the counters nor the two indexes. The two alternate, each on a fresh database. The best run of each counts, because
 * other load on the machine only makes a run slower.
 */
async function costOfSupport(): Promise<Figure[]> {
  const best = { with: 0, without: 0 }
  for (let pair = 0; pair < pairs; pair += 1) {
    const order = pair % 2 === 0 ? (['with', 'without'] as const) : (['without', 'with'] as const)
    for (const which of order) best[which] = Math.max(best[which], await measuredOnce(which === 'with'))
  }
  const floor = { name: '… not found by event or licence, not counted', value: best.without, unit: '/CPU s' }
  return [floor, atLeast('deliveries, best of four', best.with, '/CPU s', floor, 0.95)]
}

async function measuredOnce(isFoundAndCounted: boolean): Promise<number> {
  await using bed = await startTestBed()
  if (!isFoundAndCounted) {
    await bed.sql.unsafe(`
      drop index deliveries_of_event, deliveries_of_licence;
      create function keep_none() returns trigger language plpgsql as 'begin return null; end';
      create trigger keep_none before insert on delivery_count_changes for each row execute function keep_none();
      create trigger keep_none before insert on endpoint_health_changes for each row execute function keep_none()`)
  }
  const count = scaled(12_000, 500)
  await ours(bed, Math.round(count / 4))
  return perCpuSecond(await ours(bed, count))
}
