import { randomBytes } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '@licensing/test-support/poll'
import { check, type Violation } from './check/check.ts'
import { collect } from './collect/collect.ts'
import { Databases } from './collect/queries.ts'
import type { ReceiverAnswers } from './faults/inflict.ts'
import { runFaults, supervise, whenReady, type RunFault } from './faults/run-faults.ts'
import { scheduleOf } from './faults/schedule.ts'
import { openShop } from './load/open-shop.ts'
import { startLoad } from './load/run-load.ts'
import type { World } from './load/world.ts'
import type { Outcome } from './outcome.ts'
import { startStormStack, type StormStack } from './stack.ts'

interface StormOptions {
  seed: number
  faults: number
  report?: (line: string) => void
}

export interface StormResult {
  violations: Violation[]
  outcome: Outcome
  faults: RunFault[]
  /** The folder with the logs, the outcome and all tables. It is removed if there was no violation. */
  folder: string
}

const settleTimeoutMs = 60_000
const loadAfterFaultsMs = 5_000

/** Runs a storm: load with faults, recovery, a wait until no work is pending, and the check of the data. */
export async function runStorm(options: StormOptions): Promise<StormResult> {
  const folder = join(tmpdir(), `licensing-storm-${options.seed}-${randomBytes(3).toString('hex')}`)
  await mkdir(folder, { recursive: true })
  const result = await stormIn(folder, options)
  if (result.violations.length === 0) await rm(folder, { recursive: true, force: true })
  return { ...result, folder }
}

async function stormIn(
  folder: string,
  { seed, faults: count, report = () => undefined }: StormOptions,
): Promise<Omit<StormResult, 'folder'>> {
  const beganMs = performance.now()
  await using stack = await startStormStack(folder)
  const startMs = performance.now() - beganMs
  await using databases = new Databases(stack.databaseUrls)
  report(`the stack is up; logs in ${folder}`)
  const receiverAnswers: ReceiverAnswers = new Map()
  const accepted = answerRequests(stack, receiverAnswers)
  const world = await openWorld(stack)
  const load = startLoad(world, seed)
  const supervisor = supervise(stack)
  const schedule = scheduleOf(seed, count)
  const startedAt = Date.now()
  const faults = await runFaults(
    stack,
    schedule,
    receiverAnswers,
    ({ number, kind, target, startedMs, forMs }) =>
      report(
        `${seconds(startedMs)} s fault ${number} of ${count}: ${kind}, ${target}, for ${seconds(forMs)} s`,
      ),
  )
  report(`${seconds(Date.now() - startedAt)} s healed`)
  const ready = await whenReady(stack)
  await supervisor.stop()
  // The load continues for a moment, so that requests fail now if a fault broke something permanently.
  await sleep(loadAfterFaultsMs)
  await load.stop()
  report(`${seconds(Date.now() - startedAt)} s the clients have stopped`)
  await untilSettled(databases, report)
  const read = () =>
    collect(stack, databases, { world, accepted, startMs, ready, crashes: supervisor.crashes })
  let outcome = await read()
  let violations = check(outcome)
  // Some data may arrive a little later, so a violation counts only if it is found again.
  for (let attempt = 1; violations.length > 0 && attempt <= 3; attempt += 1) {
    await sleep(5_000)
    outcome = await read()
    violations = check(outcome)
  }
  report(`${seconds(Date.now() - startedAt)} s checked`)
  if (violations.length > 0) {
    const text = JSON.stringify({ violations, faults, outcome }, undefined, 1)
    await writeFile(join(folder, 'outcome.json'), text)
    await databases.dump(folder)
  }
  return { violations, outcome, faults }
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1)
}

async function openWorld(stack: StormStack): Promise<World> {
  const world: World = { stack, shops: [], sent: [], feedReads: [], walks: [], running: true }
  for (const [index, vendor] of stack.vendors.entries()) {
    world.shops.push(await openShop(world, vendor, index + 1))
  }
  return world
}

/** @returns the indices of the requests that were answered with 2xx */
function answerRequests({ receiver }: StormStack, receiverAnswers: ReceiverAnswers): Set<number> {
  const accepted = new Set<number>()
  receiver.answerWith(({ path }, index) => {
    const name = path.split('/')[1] ?? ''
    if (name === 'dead') return 'reset'
    const answer = receiverAnswers.get(name)?.() ?? {}
    if (typeof answer === 'object' && 'status' in answer && answer.status !== 200) return answer
    if (answer !== 'reset' && answer !== 'hang') accepted.add(index)
    return answer
  })
  return accepted
}

async function untilSettled(databases: Databases, report: (line: string) => void): Promise<void> {
  const settled = async () => {
    const left = (await databases.leftovers()).filter(({ count }) => count > 0)
    if (left.length > 0) throw new Error(left.map(({ name, count }) => `${name}: ${count}`).join(', '))
  }
  await eventually(settled, { timeoutMs: settleTimeoutMs, intervalMs: 500 }).catch((error: Error) =>
    report(`not quiet: ${error.message}`),
  )
}
