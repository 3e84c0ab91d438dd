import { setTimeout as pause } from 'node:timers/promises'
import { scaledSeconds } from '../bench-scale.ts'
import { quantile } from '../report.ts'
import type { TestBed, Vendor } from './test-bed.ts'
import { machineMs } from './machine-clock.ts'
import type { Sender } from './start-sender.ts'

/** How long events took to arrive at their endpoint. */
export interface Delays {
  p50Ms: number
  p99Ms: number
}

// The first event of each endpoint opens a connection. These TLS handshakes, a hundred or more a second, would dominate
// the 99th percentile, and do not occur at a steady rate.
const warmUpSeconds = scaledSeconds(3)

/**
 * How long events at a steady rate take to healthy endpoints, while this share of all endpoints is dead. It counts the
 * events of `seconds`, after a warm-up.
 */
export async function delays(
  bed: TestBed,
  options: {
    endpoints: number
    deadShare: number
    perSecond: number
    seconds: number
    /** Sends an event; by default directly into the stream. */
    send?: Sender['send']
  },
): Promise<Delays> {
  const { endpoints, deadShare, perSecond, seconds, send = intoTheStream(bed) } = options
  const vendors = await Promise.all(
    Array.from({ length: endpoints }, (_, i) => {
      // Dead endpoints are spread evenly over all.
      const isDead = Math.floor((i + 1) * deadShare) > Math.floor(i * deadShare)
      return bed
        .givenVendor(i % 8, [`/${isDead ? 'dead' : 'well'}/${i}`])
        .then((vendor) => ({ ...vendor, isDead }))
    }),
  )
  const sentAt = new Map<string, number>()
  const publishing: Promise<unknown>[] = []
  const startedAt = machineMs()
  const uncounted = perSecond * warmUpSeconds
  for (let n = 0; n < uncounted + perSecond * seconds; n += 1) {
    const dueInMs = startedAt + (n * 1000) / perSecond - machineMs()
    if (dueInMs > 1) await pause(dueInMs)
    const vendor = vendors[n % endpoints]!
    const isCounted = n >= uncounted && !vendor.isDead
    publishing.push(
      send(vendor).then(({ id, atMs }) => {
        if (isCounted) sentAt.set(id, atMs)
      }),
    )
  }
  await Promise.all(publishing)
  for (;;) {
    const arrivals = await bed.arrivals()
    if ([...sentAt.keys()].every((id) => arrivals.has(id))) {
      const waits = [...sentAt].map(([id, at]) => arrivals.get(id)! - at)
      return { p50Ms: quantile(waits, 0.5), p99Ms: quantile(waits, 0.99) }
    }
    await pause(200)
  }
}

const intoTheStream = (bed: TestBed) => async (vendor: Vendor) => {
  const atMs = machineMs()
  return { id: await bed.publish(vendor), atMs }
}
