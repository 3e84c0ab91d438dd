import { scaled } from '../bench-scale.ts'
import { atLeast } from '../report.ts'
import type { Figure } from '../report.ts'
import { startBed } from './bed.ts'
import { ours, perCpuSecond } from './deliveries-per-cpu-second.ts'

const pairs = 4

/**
 * What deliveries cost for being counted, and found by event and by licence: beside a notifier whose database has neither
 * those two indexes nor keeps a tally. Each on a fresh database and in turn; the best of each counts, since what else
 * runs only makes them slower.
 */
export async function costOfSupport(): Promise<Figure[]> {
  const best = { with: 0, without: 0 }
  for (let pair = 0; pair < pairs; pair += 1) {
    const order = pair % 2 === 0 ? (['with', 'without'] as const) : (['without', 'with'] as const)
    for (const which of order) best[which] = Math.max(best[which], await measuredOnce(which === 'with'))
  }
  const floor = { name: '… not found by event or licence, not counted', value: best.without, unit: '/CPU s' }
  return [floor, atLeast('deliveries, best of four', best.with, '/CPU s', floor, 0.95)]
}

async function measuredOnce(isFoundAndCounted: boolean): Promise<number> {
  await using bed = await startBed()
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
