import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { setTimeout as pause } from 'node:timers/promises'
import { givenPastEvents } from '../../../services/notifier/test/past-events.ts'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { cpuSeconds } from './notifier/cpu-time.ts'
import { delays } from './notifier/isolation.ts'
import { startTestBed, type TestBed } from './notifier/test-bed.ts'
import { atMost, median, under, type Figure, type Section } from './report.ts'

const quiet = { endpoints: scaled(40, 4), perSecond: scaled(40, 4), seconds: scaledSeconds(12), deadShare: 0 }
const restSeconds = scaledSeconds(30)
// The p99 of the same machine differs between rounds, so each figure is a median. Rounds of each kind alternate.
const rounds = 3

/** A pause in the middle of a large backlog and its end, beside other endpoints, and what waiting deliveries cost. */
export async function webhooksPaused(): Promise<Section> {
  const count = scaled(100_000, 1_000)
  await using bed = await startTestBed()
  const of = await bed.givenVendor(0, [])
  const { accountId, applicationId } = of
  await givenPastEvents(bed.sql, of, count)
  await bed.sql`vacuum analyze`
  // A first run opens the connections of the database, and fills caches.
  await delays(bed, quiet)
  const undisturbed = [(await delays(bed, quiet)).p99Ms]
  const rest: Figure = { name: 'CPU at rest, nothing waits', value: await cpuAtRest(bed), unit: '%' }

  const { endpoint } = await bed.calls.createEndpoint({
    accountId,
    applicationId,
    fields: { url: bed.url('/slow/backlog'), subscribedEvents: '*' },
  })
  const one = { accountId, applicationId, endpointId: endpoint!.id }
  const since = timestampFromDate(new Date(Date.now() - 86_400_000))
  await bed.calls.recoverEndpoint({ ...one, since }, { timeoutMs: 120_000 })
  const setPaused = (paused: boolean) =>
    bed.calls.updateEndpoint({ ...one, fields: { paused, plans: [] }, mask: { paths: ['paused'] } })
  /** The delays of the other endpoints while the backlog is paused or resumed in the middle. */
  const besides = async (paused: boolean) => {
    const [{ p99Ms }] = await Promise.all([
      delays(bed, quiet),
      pause((quiet.seconds * 1000) / 2).then(() => setPaused(paused)),
    ])
    return p99Ms
  }
  const pausing = [await besides(true)]
  const waiting = await pendingOf(bed, one.endpointId)
  await bed.sql`vacuum analyze`
  const waitingRest = await cpuAtRest(bed)
  const resuming: number[] = []
  for (let round = 0; round < rounds; round += 1) {
    undisturbed.push((await delays(bed, quiet)).p99Ms)
    resuming.push(await besides(false))
    pausing.push(await besides(true))
  }
  await setPaused(false)
  while ((await pendingOf(bed, one.endpointId)) > 0) await pause(500)
  const { places, attempts } = await orderOf(bed, one.endpointId)
  const p99: Figure = { name: 'p99, no attempt to the backlog', value: median(undisturbed), unit: 'ms' }
  const each = (values: number[]) => values.map((value) => value.toFixed(1)).join(', ')
  const backlog = `of a backlog of ${count.toLocaleString('en')}`
  return {
    title: 'Webhooks: an endpoint with a backlog is paused and resumed',
    figures: [
      p99,
      atMost(`p99, a pause in the middle ${backlog}`, median(pausing), 'ms', p99, 1.5),
      atMost('p99, the end of a pause', median(resuming), 'ms', p99, 1.5),
      rest,
      atMost(
        `CPU at rest, ${waiting.toLocaleString('en')} wait for a paused endpoint`,
        waitingRest,
        '%',
        rest,
        1.2,
      ),
      // Up to 32 are in flight, so an event may arrive before others that were sent before it.
      under('places by which an event arrived early or late', places, '', 64),
      under('attempts beyond one for each event', attempts - count, '', 0),
    ],
    notes: [
      `p99 is that of ${quiet.endpoints} other endpoints with ${quiet.perSecond} events a second; the endpoint with the backlog answers after 50 ms`,
      `p99 of each round, ms: without attempts to the backlog ${each(undisturbed)}; with a pause ${each(pausing)}; with its end ${each(resuming)}`,
      `CPU is that of the notifier and PostgreSQL, of a core, over ${restSeconds.toFixed(0)} s`,
    ],
  }
}

/** The CPU time of the notifier and its database without events, as a part of a core. */
async function cpuAtRest({ notifier, postgresPid }: TestBed): Promise<number> {
  const used = async () => (await cpuSeconds(notifier.pid)) + (await cpuSeconds(postgresPid))
  // Background loops without work reach their longest pause after 20 seconds.
  await pause(scaledSeconds(25) * 1000)
  const before = await used()
  await pause(restSeconds * 1000)
  return (((await used()) - before) * 100) / restSeconds
}

async function pendingOf({ sql }: TestBed, endpointId: string): Promise<number> {
  const [row] = await sql<{ pending: number }[]>`
    select count(*)::int as pending from deliveries where endpoint_id = ${endpointId} and status = 'pending'`
  return row!.pending
}

/** By how many places the events of the endpoint arrived in another order than theirs, and how many attempts there were. */
async function orderOf(bed: TestBed, endpointId: string): Promise<{ places: number; attempts: number }> {
  const arrivals = await bed.arrivals()
  const rows = await bed.sql<{ event_id: string; attempts: number }[]>`
    select event_id, attempt_count as attempts from deliveries where endpoint_id = ${endpointId} order by sequence`
  const arrived = rows
    .map(({ event_id: id }, place) => ({ place, at: arrivals.get(id)! }))
    .toSorted((a, b) => a.at - b.at || a.place - b.place)
  return {
    places: Math.max(...arrived.map(({ place }, at) => Math.abs(place - at))),
    attempts: rows.reduce((sum, { attempts }) => sum + attempts, 0),
  }
}
