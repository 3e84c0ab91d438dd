// Loaded into a service before its own code. Writes each pause of V8's garbage collection to a file of the process.
import { appendFileSync } from 'node:fs'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import type { PerformanceNodeEntry } from 'node:perf_hooks'
import { machineMs } from './notifier/machine-clock.ts'

const kinds: Record<number, string> = {
  [constants.NODE_PERFORMANCE_GC_MINOR]: 'minor',
  [constants.NODE_PERFORMANCE_GC_MAJOR]: 'major',
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL]: 'incremental',
  [constants.NODE_PERFORMANCE_GC_WEAKCB]: 'weak callbacks',
}

const file = `${process.env['GC_PAUSES']}/${process.pid}`
appendFileSync(file, '')
const offsetMs = machineMs() - performance.now()

new PerformanceObserver((list) => {
  const lines = list.getEntries().map((entry) => {
    const { startTime, duration, detail } = entry as PerformanceNodeEntry
    const { kind } = detail as { kind: number }
    return `${JSON.stringify({ startMs: startTime + offsetMs, ms: duration, kind: kinds[kind] })}\n`
  })
  appendFileSync(file, lines.join(''))
}).observe({ entryTypes: ['gc'] })
