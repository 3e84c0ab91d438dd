import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { setTimeout as pause } from 'node:timers/promises'
import { givenPastEvents } from '../../../../services/notifier/src/testing/past-events.ts'
import { scaled } from '../bench-scale.ts'
import { startBed } from '../notifier/bed.ts'
import type { Bed } from '../notifier/bed.ts'
import { ours } from '../notifier/deliveries-per-cpu-second.ts'
import { atLeast } from '../report.ts'
import type { Figure } from '../report.ts'

const goal = 0.9

/** Recovery of 100,000 events to a new endpoint, beside the notifier's rate for events as they happen. */
export async function recovery(): Promise<Figure[]> {
  await using bed = await startBed()
  const usually = await ours(bed, scaled(20_000, 500))
  const count = scaled(100_000, 1_000)
  const vendor = await bed.givenVendor(0, [])
  const { accountId, applicationId } = vendor
  const of = { accountId, applicationId }
  await givenPastEvents(bed.sql, of, count)
  const { endpoint } = await bed.calls.createEndpoint({
    ...of,
    url: bed.url('/recovered'),
    subscribedEvents: '*',
  })
  const before = await attempts(bed)
  const startedMs = performance.now()
  const since = timestampFromDate(new Date(Date.now() - 86_400_000))
  const answer = await bed.calls.recoverEndpoint(
    { ...of, endpointId: endpoint!.id, since },
    { timeoutMs: 120_000 },
  )
  const answeredMs = performance.now()
  if (Number(answer.deliveries) !== count) throw new Error(`${answer.deliveries} deliveries of ${count}`)
  while ((await attempts(bed)) < before + count) await pause(100)
  const perSecond = (count * 1000) / (performance.now() - startedMs)
  const usual: Figure = {
    name: 'deliveries of events as they happen',
    value: usually.deliveries / usually.seconds,
    unit: '/s',
  }
  return [
    usual,
    atLeast(`recovery of ${count} events, from the call to the last attempt`, perSecond, '/s', usual, goal),
    { name: 'recovery: the call itself', value: (answeredMs - startedMs) / 1000, unit: 's' },
  ]
}

async function attempts({ sql }: Bed): Promise<number> {
  const [row] = await sql<{ count: number }[]>`select count(*)::int as count from attempts`
  return row!.count
}
