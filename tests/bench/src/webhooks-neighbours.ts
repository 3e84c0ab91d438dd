import { eventually } from '@licensing/test-support/poll'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { givenBacklog } from './notifier/backlog.ts'
import { startBed } from './notifier/bed.ts'
import type { Bed } from './notifier/bed.ts'
import { delays } from './notifier/isolation.ts'
import { atMost } from './report.ts'
import type { Figure, Section } from './report.ts'

/** What two accounts that take much cost a hundred that take little. */
export async function webhooksNeighbours(): Promise<Section> {
  const quiet = { endpoints: scaled(100, 20), perSecond: scaled(100, 20), seconds: scaledSeconds(20) }
  const backlog = scaled(1_000_000)
  const flooded = scaled(10_000)
  // What a relay lets through of one account.
  const relayed = scaled(3_500)
  await using bed = await startBed()
  const dead = await bed.givenVendor(
    3,
    Array.from({ length: 50 }, (_, at) => `/dead/${at}`),
  )
  const loud = await bed.givenVendor(0, ['/well/loud'])
  const measure = () => delays(bed, { ...quiet, deadShare: 0 })
  await measure()
  const idle = await measure()

  await bed.notifier.stop()
  await givenBacklog(bed, dead, backlog)
  await bed.notifier.start()
  // The channel to it comes back by itself, a moment later.
  await eventually(() => bed.givenVendor(2, ['/well/again']), { timeoutMs: 60_000 })
  // Until it knows which endpoints are dead.
  await measure()
  const beside = await measure()

  // What the publishing and the storing of such a flood cost on this machine: no partition has this number.
  const unread = await startFlood(bed, { ...loud, partition: 99 }, flooded)
  const floor = await measure()
  await unread.stop()
  const besideFlood = async (perSecond: number) => {
    const flood = await startFlood(bed, await bed.givenVendor(0, ['/well/loud']), perSecond)
    const measured = await measure()
    return { ...measured, published: await flood.stop() }
  }
  const besideRelayed = await besideFlood(relayed)
  const both = await besideFlood(flooded)

  const p99: Figure = { name: 'p99, nothing else', value: idle.p99Ms, unit: 'ms' }
  const million = `50 dead endpoints with ${backlog.toLocaleString('en')} due`
  return {
    title: `Webhooks: ${quiet.endpoints} quiet accounts beside two that take much`,
    figures: [
      { name: 'p50, nothing else', value: idle.p50Ms, unit: 'ms' },
      p99,
      { name: `p50, ${million}`, value: beside.p50Ms, unit: 'ms' },
      atMost(`p99, ${million}`, beside.p99Ms, 'ms', p99, 2),
      { name: 'p99, and as many events that nobody reads', value: floor.p99Ms, unit: 'ms' },
      {
        name: `p50, and ${relayed.toLocaleString('en')} events a second of another`,
        value: besideRelayed.p50Ms,
        unit: 'ms',
      },
      atMost(
        `p99, and ${relayed.toLocaleString('en')} events a second of another`,
        besideRelayed.p99Ms,
        'ms',
        p99,
        2,
      ),
      {
        name: `p50, and ${flooded.toLocaleString('en')} events a second of another`,
        value: both.p50Ms,
        unit: 'ms',
      },
      atMost(`p99, and ${flooded.toLocaleString('en')} events a second of another`, both.p99Ms, 'ms', p99, 2),
      {
        name: 'p99 of those in the partition of the other',
        value: both.p99MsOf(loud.partition),
        unit: 'ms',
      },
      { name: 'events of the other published', value: both.published, unit: '/s' },
    ],
    notes: [
      'times are from the event in the stream to its arrival at the quiet account’s endpoint, with connections open',
      'the events of the other are of one partition, as an eighth of the quiet accounts’ are',
      'they go into the stream at once; a service’s relay lets some 3,500 a second of one account through',
    ],
  }
}

/** Publishes an account's events at a rate, in a process of its own. */
async function startFlood(bed: Bed, vendor: object, perSecond: number) {
  const path = new URL('notifier/flood-events.ts', import.meta.url).pathname
  const flood = spawn(process.execPath, [path, bed.natsUrl, JSON.stringify(vendor), String(perSecond)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let output = ''
  flood.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await once(flood.stdout, 'data')
  return {
    /** @returns how many it has published a second */
    async stop(): Promise<number> {
      flood.stdin.end()
      await once(flood, 'exit')
      return Number(output.trim().split('\n').at(-1))
    },
  }
}
