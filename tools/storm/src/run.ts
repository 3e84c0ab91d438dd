import { parseArgs } from 'node:util'
import { runStorm, type StormResult } from './storm.ts'

const maxShown = 60

// `npm run storm [-- --seed 7 --faults 200 --seeds 10]`: a storm for each seed, one after the other. Exits 1 if
// one leaves a violation.
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    faults: { type: 'string', default: '200' },
    seeds: { type: 'string', default: '1' },
    quiet: { type: 'boolean', default: false },
  },
})
const [first, faults, seeds] = [values.seed, values.faults, values.seeds].map(Number) as [
  number,
  number,
  number,
]
const print = (line: string) => void process.stdout.write(`${line}\n`)
let violated = 0
for (let seed = first; seed < first + seeds; seed += 1) {
  print(`storm with seed ${seed}, ${faults} faults`)
  const result = await runStorm({ seed, faults, ...(!values.quiet && { report: print }) })
  print(summary({ seed, faults }, result))
  if (result.violations.length > 0) violated += 1
}
process.exit(violated > 0 ? 1 : 0)

/** Figures of a storm. If there are violations, also the faults, the replay command and the folder of the logs. */
function summary(
  { seed, faults: count }: { seed: number; faults: number },
  { outcome, violations, faults, folder }: StormResult,
): string {
  const by = (answered: string) => outcome.sent.filter((each) => each.answered === answered).length
  const delivered = outcome.arrivals.filter(({ accepted }) => accepted)
  const once = new Set(delivered.map(({ url, eventId }) => `${url} ${eventId}`)).size
  const slowest = Math.max(...outcome.sent.map(({ from, to }) => to - from))
  const latestReady = Math.max(...outcome.ready.map(({ afterMs }) => afterMs ?? Number.POSITIVE_INFINITY))
  const lines = [
    `seed ${seed}: ${faults.length} faults; ${outcome.sent.length} requests (${by('acknowledged')} acknowledged, ` +
      `${by('refused')} refused, ${by('unknown')} unknown), the slowest ${(slowest / 1_000).toFixed(1)} s; ` +
      `${outcome.licences.length} licences, ${outcome.events.length} events, ${once} deliveries and ` +
      `${delivered.length - once} duplicates; ready after ${(latestReady / 1_000).toFixed(1)} s; ` +
      `${violations.length} violations`,
  ]
  if (violations.length === 0) return lines.join('\n')
  lines.push(...violations.slice(0, maxShown).map(({ rule, detail }) => `  violated: ${rule}: ${detail}`))
  if (violations.length > maxShown) lines.push(`  and ${violations.length - maxShown} more`)
  const happened = faults.map(
    ({ number, kind, target, startedMs, endedMs, problem }) =>
      `  ${number}. ${kind}, ${target}, ${startedMs} to ${endedMs} ms${problem ? ` (${problem})` : ''}`,
  )
  lines.push('faults, in milliseconds from the start:', ...happened)
  lines.push(`replay: npm run storm -- --seed ${seed} --faults ${count}`, `logs: ${folder}`)
  return lines.join('\n')
}
