import { startLocalStack } from '@licensing/test-support/local-stack'
import type { LocalStack } from '@licensing/test-support/local-stack'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { cpuSeconds } from './notifier/cpu-time.ts'
import { under } from './report.ts'
import type { Section } from './report.ts'

// Background loops without work reach their longest pause after 20 seconds.
const settleSeconds = 30
const restSeconds = 60

/** Cost of `npm start`: CPU time until everything is ready, and CPU time and memory without requests. It also works on a busy machine. */
export async function atRest(): Promise<Section> {
  await using folder = await makeTemporaryFolder()
  const start = async () => {
    const stack = startLocalStack({ dataDir: folder.path, throughNpm: true })
    await stack.ready(1_800_000)
    return { stack, seconds: await cpuSeconds(stack.pid) }
  }
  const first = await start()
  await first.stack[Symbol.asyncDispose]()
  const { stack, seconds } = await start()
  await using _ = stack
  await sleep(settleSeconds * 1000)
  const before = await cpuSeconds(stack.pid)
  await sleep(restSeconds * 1000)
  const percent = ((await cpuSeconds(stack.pid)) - before) * (100 / restSeconds)
  const mebibytes = await memoryMebibytes(stack)
  return {
    title: 'CPU time and memory of npm start',
    figures: [
      { name: 'first start, with new data', value: first.seconds, unit: 's' },
      { name: 'another start', value: seconds, unit: 's' },
      under('at rest, of a core', percent, '%', 2),
      under('memory at rest', mebibytes, 'MiB', 400),
    ],
    notes: [
      `npm, gateway, services, simulator, PostgreSQL and NATS together; ${restSeconds} s at rest`,
      'memory is the proportional set size, which counts shared pages once',
    ],
  }
}

/** The proportional set size of a stack of `npm start`, servers included. */
export async function memoryMebibytes(stack: LocalStack): Promise<number> {
  let kibibytes = 0
  for (const { pid } of await stack.family()) {
    const rollup = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '')
    kibibytes += Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0)
  }
  return kibibytes / 1024
}
