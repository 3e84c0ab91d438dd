import { execFileSync } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'

const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }))

interface Process {
  parent: number
  seconds: number
}

/** CPU seconds that a process and all its descendants have used so far, including ended descendants, not ended threads. */
export async function cpuSeconds(pid: number): Promise<number> {
  const ids = (await readdir('/proc')).filter((name) => /^[0-9]+$/.test(name)).map(Number)
  const all = new Map<number, Process>()
  await Promise.all(
    ids.map(async (id) => {
      const found = await readProcess(id)
      if (found) all.set(id, found)
    }),
  )
  const total = (id: number): number => {
    const children = [...all].filter(([, { parent }]) => parent === id).map(([child]) => total(child))
    return (all.get(id)?.seconds ?? 0) + children.reduce((sum, seconds) => sum + seconds, 0)
  }
  return total(pid)
}

/** CPU seconds that each of these processes has used so far, without its descendants; 0 for a process that has ended. */
export async function cpuSecondsOfEach(pids: number[]): Promise<number[]> {
  const found = await Promise.all(pids.map(readProcess))
  return found.map((process) => process?.seconds ?? 0)
}

async function readProcess(id: number): Promise<Process | undefined> {
  try {
    const text = await readFile(`/proc/${id}/stat`, 'utf8')
    // The fields after the name, which may contain any character: state, parent, … user and system time of ended children.
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const ofEnded = (Number(fields[13]) + Number(fields[14])) / ticksPerSecond
    // Its threads have exact times. Those in `stat` are samples at ticks of a timer, which are wrong by a multiple for a process at
    // rest that wakes up at such ticks.
    const threads = await readdir(`/proc/${id}/task`)
    const times = await Promise.all(
      threads.map((thread) => readFile(`/proc/${id}/task/${thread}/schedstat`, 'utf8').catch(() => '0')),
    )
    const nanoseconds = times.reduce((sum, time) => sum + Number(time.split(' ')[0]), 0)
    return { parent: Number(fields[1]), seconds: nanoseconds / 1e9 + ofEnded }
  } catch {
    return undefined
  }
}
