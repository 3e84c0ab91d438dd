import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Sends a signal to a process and all that descends from it: PostgreSQL is a process a connection. */
export async function signalTree(pid: number, signal: NodeJS.Signals): Promise<void> {
  const { stdout } = await run('ps', ['-e', '-o', 'pid=,ppid='])
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
  const tree = [pid]
  for (const parent of tree) {
    tree.push(...rows.filter(([child, of]) => of === parent && !tree.includes(child)).map(([child]) => child))
  }
  for (const each of tree) {
    try {
      process.kill(each, signal)
    } catch {
      // It has ended meanwhile.
    }
  }
}
