import { join } from 'node:path'
import type { DataFolder } from './data-folder.ts'
import { keepRunning } from './keep-running.ts'
import type { Waits } from './waits.ts'
import { startNode, untilReady, type NodeProcess } from '@licensing/local-servers/node-process'

/** Longer than the services need to finish running requests. */
const STOP_GRACE_MS = 30_000

/** The gateway, a service or the Stripe simulator. */
export interface Program {
  name: string
  main: string
  env: Record<string, string>
  /** Answers 200 when it is ready. */
  readyUrl: string
}

/** How a start reports its progress, and how it is aborted. */
export interface StartContext {
  /** Receives lines about the progress. */
  say: (line: string) => void
  waits: Waits
  /** Aborts the start with a reason. */
  signal: AbortSignal
}

/**
 * Starts all programs at once, and returns when all are ready. Waits as long as they run. From then on a program that ends is
 * started again. Disposing of `started` stops the groups, the last first.
 *
 * @throws NotReadyError
 */
export async function startPrograms(
  groups: Program[][],
  folder: DataFolder,
  started: AsyncDisposableStack,
  { say, waits, signal }: StartContext,
): Promise<void> {
  const nodes: { program: Program; node: NodeProcess }[] = []
  const launch = async (program: Program) => {
    const node = await startNode(
      program.name,
      program.main,
      program.env,
      join(folder.logs, `${program.name}.log`),
    )
    await folder.note(program.name, node.server.pid)
    return node
  }
  try {
    for (const program of groups.flat()) nodes.push({ program, node: await launch(program) })
    await Promise.all(
      nodes.map(async ({ program, node }) => {
        let missing = ''
        const notReady = (answer: string) => (missing = missingOf(answer))
        const ready = untilReady(node, program.readyUrl, Infinity, { notReady, signal })
        await waits.during(() => program.name + missing, ready)
        say(`${program.name} is ready`)
      }),
    )
  } catch (error) {
    await Promise.all(nodes.map(({ node }) => node.server.stop({ graceMs: STOP_GRACE_MS })))
    throw error
  }
  for (const group of groups) {
    const stops = nodes
      .filter(({ program }) => group.includes(program))
      .map(({ program, node }) => keepProgram(program, node, launch, say))
    started.defer(async () => void (await Promise.all(stops.map((stop) => stop()))))
  }
}

/** The failed probes in an answer of /readyz, as text. */
function missingOf(answer: string): string {
  try {
    return problemsOf((JSON.parse(answer) as { probes?: Probes }).probes ?? {})
  } catch {
    return ''
  }
}

/** The problem of each probe; null if it passes. */
export type Probes = Record<string, string | null>

export function problemsOf(probes: Probes): string {
  const problems = Object.entries(probes).flatMap(([name, problem]) => (problem ? `${name} ${problem}` : []))
  return problems.length > 0 ? ` (${problems.join('; ')})` : ''
}

function keepProgram(
  program: Program,
  node: NodeProcess,
  launch: (program: Program) => Promise<NodeProcess>,
  say: (line: string) => void,
): () => Promise<void> {
  let current = node
  const child = {
    name: program.name,
    ended: () => current.server.ended,
    stop: () => current.server.stop({ graceMs: STOP_GRACE_MS }),
    restart: async () => {
      current = await launch(program)
    },
  }
  return keepRunning(child, say)
}
