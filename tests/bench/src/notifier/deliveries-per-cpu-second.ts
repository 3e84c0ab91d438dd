import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { startBed } from './bed.ts'
import type { Bed } from './bed.ts'
import { cpuSeconds } from './cpu-time.ts'

/** CPU time of deliveries, in the notifier and in PostgreSQL, from the published event to the written attempt. */
export interface Cost {
  deliveries: number
  seconds: number
  nodeMicroseconds: number
  postgresMicroseconds: number
}

export const perCpuSecond = ({ nodeMicroseconds, postgresMicroseconds }: Cost) =>
  1e6 / (nodeMicroseconds + postgresMicroseconds)

async function measured(
  bed: Bed,
  pid: number,
  deliveries: number,
  work: () => Promise<unknown>,
): Promise<Cost> {
  const pids = [pid, bed.postgresPid]
  const before = await Promise.all(pids.map(cpuSeconds))
  const startedAt = performance.now()
  await work()
  const seconds = (performance.now() - startedAt) / 1000
  const after = await Promise.all(pids.map(cpuSeconds))
  const [nodeMicroseconds, postgresMicroseconds] = after.map(
    (value, i) => ((value - before[i]!) * 1e6) / deliveries,
  ) as [number, number]
  return { deliveries, seconds, nodeMicroseconds, postgresMicroseconds }
}

/** The notifier, under a burst of events of eight vendors. */
export async function ours(bed: Bed, events: number): Promise<Cost> {
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
  await burst(2_000)
  return measured(bed, bed.notifier.pid, events, () => burst(events))
}

/** What a sender costs that claims, logs and updates row by row, over the same HTTP client to the same receiver. */
export async function perRow(bed: Bed, deliveries: number): Promise<Cost> {
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

if (import.meta.main) {
  const count = Number(process.argv[2] ?? 20_000)
  await using bed = await startBed()
  const [batched, single] = [await ours(bed, count), await perRow(bed, Math.round(count / 5))]
  console.log({ ours: batched, perRow: single, ratio: perCpuSecond(batched) / perCpuSecond(single) })
}
