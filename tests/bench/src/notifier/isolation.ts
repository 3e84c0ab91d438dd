import { setTimeout as pause } from 'node:timers/promises'
import { scaledSeconds } from '../bench-scale.ts'
import { quantile } from '../report.ts'
import type { Bed } from './bed.ts'

export interface Delays {
  p50Ms: number
  p99Ms: number
  /** Of those whose events are in one partition. */
  p99MsOf(partition: number): number
}

// The first event of each endpoint opens a connection to it, at a hundred or more a second: a burst of TLS handshakes
// that would be most of the 99th percentile, and that no steady rate has.
const warmUpSeconds = scaledSeconds(3)

/**
 * How long healthy endpoints wait for events that come at a steady rate, while this share of all endpoints is dead.
 * Counted are those sent after a warm-up, in `seconds`.
 */
export async function delays(
  bed: Bed,
  options: { endpoints: number; deadShare: number; perSecond: number; seconds: number },
): Promise<Delays> {
  const { endpoints, deadShare, perSecond, seconds } = options
  const vendors = await Promise.all(
    Array.from({ length: endpoints }, (_, i) => {
      // Spread evenly over all.
      const isDead = Math.floor((i + 1) * deadShare) > Math.floor(i * deadShare)
      return bed
        .givenVendor(i % 8, [`/${isDead ? 'dead' : 'well'}/${i}`])
        .then((vendor) => ({ ...vendor, isDead }))
    }),
  )
  const sent = new Map<string, { at: number; partition: number }>()
  const publishing: Promise<unknown>[] = []
  const startedAt = Date.now()
  const uncounted = perSecond * warmUpSeconds
  for (let n = 0; n < uncounted + perSecond * seconds; n += 1) {
    const dueInMs = startedAt + (n * 1000) / perSecond - Date.now()
    if (dueInMs > 1) await pause(dueInMs)
    const vendor = vendors[n % endpoints]!
    const isCounted = n >= uncounted && !vendor.isDead
    const at = Date.now()
    publishing.push(
      bed.publish(vendor).then((id) => {
        if (isCounted) sent.set(id, { at, partition: vendor.partition })
      }),
    )
  }
  await Promise.all(publishing)
  for (;;) {
    const arrivals = await bed.arrivals()
    const waits = [...sent].flatMap(([id, { at, partition }]) => {
      const arrivedAt = arrivals.get(id)
      return arrivedAt === undefined ? [] : [{ ms: arrivedAt - at, partition }]
    })
    if (waits.length === sent.size) {
      const all = waits.map(({ ms }) => ms)
      const of = (wanted: number) => waits.flatMap(({ ms, partition }) => (partition === wanted ? [ms] : []))
      return {
        p50Ms: quantile(all, 0.5),
        p99Ms: quantile(all, 0.99),
        p99MsOf: (partition) => quantile(of(partition), 0.99),
      }
    }
    await pause(200)
  }
}
