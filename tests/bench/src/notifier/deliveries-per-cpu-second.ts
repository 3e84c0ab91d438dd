import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { TestBed } from './test-bed.ts'
import { cpuSeconds } from './cpu-time.ts'

/** CPU time of deliveries in the sender, PostgreSQL and NATS, from the published event to the stored attempt. */
export interface Cost {
  deliveries: number
  seconds: number
  nodeMicroseconds: number
  postgresMicroseconds: number
  natsMicroseconds: number
}

export const perCpuSecond = ({ nodeMicroseconds, postgresMicroseconds, natsMicroseconds }: Cost) =>
  1e6 / (nodeMicroseconds + postgresMicroseconds + natsMicroseconds)

/** Measures the cost of the `deliveries` that `work` causes. `work` ends when the last is stored. */
export async function measured(
  bed: TestBed,
  pid: number,
  deliveries: number,
  work: () => Promise<unknown>,
): Promise<Cost> {
  const pids = [pid, bed.postgresPid, bed.natsPid]
  const before = await Promise.all(pids.map(cpuSeconds))
  const startedAt = performance.now()
  await work()
  const seconds = (performance.now() - startedAt) / 1000
  const after = await Promise.all(pids.map(cpuSeconds))
  const [nodeMicroseconds, postgresMicroseconds, natsMicroseconds] = after.map(
    (value, i) => ((value - before[i]!) * 1e6) / deliveries,
  ) as [number, number, number]
  return { deliveries, seconds, nodeMicroseconds, postgresMicroseconds, natsMicroseconds }
}

/** The cost of the notifier under a burst of events of eight vendors. */
export async function ours(bed: TestBed, events: number): Promise<Cost> {
  const vendors = await Promise.all(Array.from({ length: 8 }, (_, i) => bed.givenVendor(i, [`/of/${i}`])))
  const burst = async (count: number) => {
    const [before] = await bed.sql<{ count: number }[]>`select count(*)::int as count from attempts`
    for (let done = 0; done < count; done += 500) {
      await Promise.all(
        Array.from({ length: Math.min(500, count - done) }, (_, i) => bed.publish(vendors[i % 8]!)),
      )
    }
    for (;;) {
      const [now] = await bed.sql<{ count: number }[]>`select count(*)::int as count from attempts`
      if (now!.count >= before!.count + count) return
      await pause(250)
    }
  }
  await burst(Math.min(2_000, events))
  return measured(bed, bed.notifier.pid, events, () => burst(events))
}

/** The cost of a sender that claims, logs and updates row by row, with the same HTTP client and receiver. */
export async function perRow(bed: TestBed, deliveries: number): Promise<Cost> {
  const child = fork(new URL('per-row.ts', import.meta.url), [
    bed.databaseUrl,
    bed.url('/per-row'),
    bed.authority,
  ])
  await once(child, 'message')
  const run = async (count: number) => {
    child.send(count)
    await once(child, 'message')
  }
  try {
    await run(500)
    return await measured(bed, child.pid!, deliveries, () => run(deliveries))
  } finally {
    child.kill('SIGKILL')
  }
}
