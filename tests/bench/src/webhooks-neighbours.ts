import type { Database } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { givenBacklog } from './notifier/backlog.ts'
import { startTestBed } from './notifier/test-bed.ts'
import { delays, type Delays } from './notifier/isolation.ts'
import { startSender } from './notifier/start-sender.ts'
import { atMost, median, type Figure, type Section } from './report.ts'

// The p99 of the same machine differs by a half between rounds of 20 s, and sometimes the host or its disk stops for a
// tenth of a second. So each figure is the median of the p99 of the rounds. The p99 of all events together would be that of
// the worst round.
const rounds = 5

/** How much two accounts with a heavy load delay a hundred accounts with a light load. */
export async function webhooksNeighbours(): Promise<Section> {
  const quiet = { endpoints: scaled(100, 20), perSecond: scaled(100, 20), seconds: scaledSeconds(20) }
  const backlog = scaled(1_000_000)
  const flooded = scaled(10_000)
  await using bed = await startTestBed()
  using sender = await startSender(bed)
  const dead = await bed.givenVendor(
    3,
    Array.from({ length: 50 }, (_, at) => `/dead/${at}`),
  )
  const loud = await bed.givenVendor(0, ['/well/loud'])
  await useWal(bed.sql)
  const measure = () => delays(bed, { ...quiet, deadShare: 0, send: sender.send })
  await measure()
  const idleRounds: Delays[] = []
  for (let round = 0; round < rounds; round += 1) idleRounds.push(await measure())

  await bed.notifier.stop()
  await givenBacklog(bed, dead, backlog)
  // Inserting the backlog has used up the old WAL segments.
  await useWal(bed.sql)
  await bed.notifier.start()
  // The gRPC channel to the restarted notifier reconnects by itself after a moment.
  await eventually(() => bed.givenVendor(2, ['/well/again']), { timeoutMs: 60_000 })
  // A first run, until the notifier knows which endpoints are dead.
  await measure()
  const backlogRounds: Delays[] = []
  const floodRounds: Delays[] = []
  const rates: { committedPerSecond: number; publishedPerSecond: number }[] = []
  for (let round = 0; round < rounds; round += 1) {
    backlogRounds.push(await measure())
    const flood = sender.flood(loud, flooded)
    floodRounds.push(await measure())
    rates.push(await flood.stop())
  }
  const typical = (of: Delays[], percentile: 'p50Ms' | 'p99Ms') =>
    median(of.map((round) => round[percentile]))
  const p99: Figure = { name: 'p99, nothing else', value: typical(idleRounds, 'p99Ms'), unit: 'ms' }
  const each = (of: Delays[]) => of.map(({ p99Ms }) => p99Ms.toFixed(1)).join(', ')
  const million = `50 dead endpoints with ${backlog.toLocaleString('en')} due`
  const flood = `and ${flooded.toLocaleString('en')} events a second of another`
  const rate = (of: keyof (typeof rates)[number]) => median(rates.map((round) => round[of]))
  return {
    title: `Webhooks: ${quiet.endpoints} quiet accounts beside two busy accounts`,
    figures: [
      { name: 'p50, nothing else', value: typical(idleRounds, 'p50Ms'), unit: 'ms' },
      p99,
      { name: `p50, ${million}`, value: typical(backlogRounds, 'p50Ms'), unit: 'ms' },
      atMost(`p99, ${million}`, typical(backlogRounds, 'p99Ms'), 'ms', p99, 2),
      { name: `p50, ${flood}`, value: typical(floodRounds, 'p50Ms'), unit: 'ms' },
      atMost(`p99, ${flood}`, typical(floodRounds, 'p99Ms'), 'ms', p99, 2),
      { name: 'events of the flood committed', value: rate('committedPerSecond'), unit: '/s' },
      { name: '… published', value: rate('publishedPerSecond'), unit: '/s' },
    ],
    notes: [
      'times are from the start of the transaction with the event to its arrival at the quiet account’s endpoint, with connections open',
      `medians of ${rounds} rounds; rounds with only the backlog and with the flood alternate`,
      `p99 of each round, ms: nothing else ${each(idleRounds)}; beside the backlog ${each(backlogRounds)}; beside both ${each(floodRounds)}`,
      'the events of the flood are in one partition, as are an eighth of the quiet accounts; they are committed in transactions of 100',
    ],
  }
}

// More segments than PostgreSQL keeps: `min_wal_size` and the WAL between two checkpoints.
const segments = scaled(140, 5)

/**
 * Gives PostgreSQL old WAL segments to reuse, like a server that has run for some time. A new server has none, and creating
 * one (16 MiB of zeros) blocks all commits: for 17 ms, every 3 s at 10,000 events a second.
 */
async function useWal(sql: Database): Promise<void> {
  for (let made = 0; made < segments; made += 1) {
    // PostgreSQL switches only a segment that contains data.
    await sql`select pg_logical_emit_message(false, 'bench', 'segment')`
    await sql`select pg_switch_wal()`
  }
  await sql`checkpoint`
}
