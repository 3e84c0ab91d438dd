import { parseArgs } from 'node:util'
import { runStorm } from './storm.ts'
import { summary } from './summary.ts'

// `npm run storm [-- --seed 7 --faults 200 --seeds 10]`: a storm for each seed, one after the other. Exits 1 where one
// leaves a violation.
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
