import type { Stack } from '@licensing/test-support/stack-shape'
import { under } from './report.ts'
import type { Figure } from './report.ts'
import { residentMiB } from './setting.ts'

const maxMiB = 250

/** Reads the resident memory of every process of a stack each second, and keeps the peaks. */
export function watchMemory(stack: Stack): { figures: () => Figure[] } & Disposable {
  const peaks = new Map<string, number>()
  const look = async () => {
    for (const [name, size] of Object.entries(await residentMiB(stack))) {
      peaks.set(name, Math.max(peaks.get(name) ?? 0, size))
    }
  }
  // If a process is just restarting, the next interval reads it.
  const timer = setInterval(() => void look().catch(() => undefined), 1_000)
  return {
    figures: () => [...peaks].map(([name, size]) => under(`resident memory, ${name}`, size, 'MiB', maxMiB)),
    [Symbol.dispose]: () => clearInterval(timer),
  }
}
