import { eventually } from '@licensing/test-support/poll'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { claimCost, givenBacklog } from './notifier/backlog.ts'
import { startTestBed } from './notifier/test-bed.ts'
import { delays } from './notifier/isolation.ts'
import { atMost } from './report.ts'
import type { Figure, Section } from './report.ts'

/** How much dead endpoints delay healthy ones. */
export async function webhooksIsolation(): Promise<Section> {
  const options = { endpoints: scaled(200, 34), perSecond: scaled(200, 34), seconds: scaledSeconds(30) }
  return {
    title: `Webhooks: ${options.endpoints} endpoints, ${options.perSecond} events a second, some endpoints dead`,
    figures: [...(await deadShares(options)), ...(await deadBacklog(options))],
    notes: [
      'times are from the event in the stream to its arrival at a healthy endpoint, with connections open',
    ],
  }
}

type Options = { endpoints: number; perSecond: number; seconds: number }

async function deadShares(options: Options): Promise<Figure[]> {
  const measure = async (deadShare: number) => {
    await using bed = await startTestBed()
    return await delays(bed, { ...options, deadShare })
  }
  const healthy = await measure(0)
  const floor: Figure = { name: 'p99, all healthy', value: healthy.p99Ms, unit: 'ms' }
  const figures: Figure[] = [{ name: 'p50, all healthy', value: healthy.p50Ms, unit: 'ms' }, floor]
  for (const deadShare of [0.03, 0.1, 0.3]) {
    const { p99Ms } = await measure(deadShare)
    figures.push(atMost(`p99, ${Math.round(deadShare * 100)} % dead`, p99Ms, 'ms', floor, 2))
  }
  return figures
}

/** A million due deliveries to one dead endpoint, compared with ten thousand to another. */
async function deadBacklog(options: Options): Promise<Figure[]> {
  await using bed = await startTestBed()
  const few = await bed.givenVendor(0, ['/dead/few'])
  const many = await bed.givenVendor(1, ['/dead/many'])
  const before = await delays(bed, { ...options, deadShare: 0 })
  const [fewCount, manyCount] = [10_000, Math.max(20_000, scaled(1_000_000))]
  const claims = 200

  await bed.notifier.kill()
  const fewCost = await claimCost(bed, await givenBacklog(bed, few, fewCount), claims)
  const manyCost = await claimCost(bed, await givenBacklog(bed, many, manyCount), claims)
  await bed.notifier.start()
  // The gRPC channel to the restarted notifier reconnects by itself after a moment.
  await eventually(() => bed.givenVendor(2, ['/well/again']), { timeoutMs: 60_000 })
  const after = await delays(bed, { ...options, deadShare: 0 })

  const without: Figure = { name: 'p99, no backlog', value: before.p99Ms, unit: 'ms' }
  const cheap: Figure = { name: `claim of 32 out of ${fewCount} due`, value: fewCost, unit: 'ms' }
  return [
    without,
    atMost(`p99, ${manyCount} due for one dead endpoint`, after.p99Ms, 'ms', without, 2),
    cheap,
    atMost(`claim of 32 out of ${manyCount} due`, manyCost, 'ms', cheap, 1.5),
  ]
}
