import { eventually } from '@licensing/test-support/poll'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { givenBacklog } from './notifier/backlog.ts'
import { startBed } from './notifier/bed.ts'
import { Delays, delays } from './notifier/isolation.ts'
import { startSender } from './notifier/start-sender.ts'
import { atMost, median } from './report.ts'
import type { Figure, Section } from './report.ts'

// Of one round of 20 s to the next the same machine's p99 differs by a half.
const rounds = 3

/** What two accounts that take much cost a hundred that take little. */
export async function webhooksNeighbours(): Promise<Section> {
  const quiet = { endpoints: scaled(100, 20), perSecond: scaled(100, 20), seconds: scaledSeconds(20) }
  const backlog = scaled(1_000_000)
  const flooded = scaled(10_000)
  await using bed = await startBed()
  using sender = await startSender(bed)
  const dead = await bed.givenVendor(
    3,
    Array.from({ length: 50 }, (_, at) => `/dead/${at}`),
  )
  const loudPartition = 0
  const loud = await bed.givenVendor(loudPartition, ['/well/loud'])
  const measure = () => delays(bed, { ...quiet, deadShare: 0, send: sender.send })
  await measure()
  const idleRounds: Delays[] = []
  for (let round = 0; round < rounds; round += 1) idleRounds.push(await measure())

  await bed.notifier.stop()
  await givenBacklog(bed, dead, backlog)
  await bed.notifier.start()
  // The channel to it comes back by itself, a moment later.
  await eventually(() => bed.givenVendor(2, ['/well/again']), { timeoutMs: 60_000 })
  // Until it knows which endpoints are dead.
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
  const [idle, besideBacklog, besideBoth] = [idleRounds, backlogRounds, floodRounds].map(Delays.of)

  const p99: Figure = { name: 'p99, nothing else', value: idle!.p99Ms, unit: 'ms' }
  const million = `50 dead endpoints with ${backlog.toLocaleString('en')} due`
  const flood = `and ${flooded.toLocaleString('en')} events a second of another`
  const rate = (of: keyof (typeof rates)[number]) => median(rates.map((round) => round[of]))
  return {
    title: `Webhooks: ${quiet.endpoints} quiet accounts beside two that take much`,
    figures: [
      { name: 'p50, nothing else', value: idle!.p50Ms, unit: 'ms' },
      p99,
      { name: `p50, ${million}`, value: besideBacklog!.p50Ms, unit: 'ms' },
      atMost(`p99, ${million}`, besideBacklog!.p99Ms, 'ms', p99, 2),
      { name: `p50, ${flood}`, value: besideBoth!.p50Ms, unit: 'ms' },
      atMost(`p99, ${flood}`, besideBoth!.p99Ms, 'ms', p99, 2),
      {
        name: 'p99 of those in the partition of the other',
        value: besideBoth!.in(loudPartition).p99Ms,
        unit: 'ms',
      },
      { name: 'events of the other committed', value: rate('committedPerSecond'), unit: '/s' },
      { name: '… published', value: rate('publishedPerSecond'), unit: '/s' },
    ],
    notes: [
      'times are from the start of the transaction with the event to its arrival at the quiet account’s endpoint, with connections open',
      `all of ${rounds} rounds; those with and without the flood take turns`,
      'the events of the other are of one partition, as an eighth of the quiet accounts’ are; transactions of 100 commit them',
    ],
  }
}
