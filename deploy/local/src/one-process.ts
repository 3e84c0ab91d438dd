import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { NotReadyError } from '@licensing/local-servers/node-process'
import { lastLines, truncateLog } from '@licensing/local-servers/server-process'
import type { Launched, Program as LaunchableProgram } from '@licensing/process/run'
import type { DataFolder } from './data-folder.ts'
import { problemsOf, type Probes, type Program, type StartContext } from './programs.ts'

const readyPollMs = 20

interface Part extends Launched {
  program: Program
  /** Rejects if its start has failed. */
  check(): Promise<void>
}

/**
 * Starts programs in this process, group by group, and returns when all are ready, however long that takes. A group starts
 * when the previous group is ready, so that its programs can connect at once. Disposing of `started` stops the groups, the
 * last first.
 *
 * @throws NotReadyError
 */
export async function launchPrograms(
  groups: Program[][],
  folder: DataFolder,
  started: AsyncDisposableStack,
  { say, waits, signal }: StartContext,
): Promise<void> {
  const parts: Part[] = []
  const stop = async (programs: readonly Program[]) => {
    const stopped = parts.filter(({ program }) => programs.includes(program))
    await Promise.all(stopped.map((part) => part.stop('stop')))
  }
  const failed = new AbortController()
  const untilReady = async (part: Part) => {
    const { name } = part.program
    let missing = ''
    const notReady = (probes: Probes) => (missing = problemsOf(probes))
    const ready = pollReady(part, AbortSignal.any([signal, failed.signal]), notReady)
    await waits.during(() => name + missing, ready)
    say(`${name} is ready`)
  }
  try {
    const modules = await loadPrograms(groups.flat().map(({ main }) => main))
    for (const group of groups) {
      signal.throwIfAborted()
      for (const program of group) parts.push(await launch(program, modules.get(program.main)!, folder))
      await Promise.all(parts.filter(({ program }) => group.includes(program)).map(untilReady))
    }
  } catch (error) {
    failed.abort()
    await stop(groups.flat())
    throw error
  }
  for (const group of groups) started.defer(() => stop(group))
}

/**
 * Loads the modules of all programs before any is launched. Loading blocks this process, so a connection that is being
 * opened meanwhile would time out on a busy machine.
 */
export async function loadPrograms(mains: string[]): Promise<Map<string, LaunchableProgram>> {
  const programs = new Map<string, LaunchableProgram>()
  for (const main of mains) {
    const { program } = (await import(main)) as { program: LaunchableProgram }
    programs.set(main, program)
  }
  return programs
}

async function launch(program: Program, launchable: LaunchableProgram, folder: DataFolder): Promise<Part> {
  const { name, env } = program
  const logFile = join(folder.logs, `${name}.log`)
  const before = await truncateLog(logFile)
  let failure: string | undefined
  const check = async () => {
    if (failure === undefined) return
    const log = (await readFile(logFile)).subarray(before).toString().trim()
    throw new NotReadyError({ name, logFile }, failure, lastLines(log, 12))
  }
  try {
    const launched = launchable.launch({ env, logFile, failed: (reason) => (failure = reason) })
    return { ...launched, program, check }
  } catch (error) {
    throw new Error(`${name} could not start: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
  }
}

async function pollReady(
  { health, check }: Part,
  signal: AbortSignal,
  notReady: (probes: Probes) => void,
): Promise<void> {
  for (; ; await sleep(readyPollMs)) {
    signal.throwIfAborted()
    await check()
    const { ready, probes } = await health.check()
    if (ready) return
    notReady(probes)
  }
}
