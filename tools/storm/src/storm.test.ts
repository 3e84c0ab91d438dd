import { expect, test } from 'vitest'
import { runStorm } from './storm.ts'
import { summary } from './summary.ts'

// Another seed each time; STORM_SEED or TEST_SEED replays one.
const seed = Number(process.env['STORM_SEED'] ?? process.env['TEST_SEED'] ?? Date.now() % 100_000)
const faults = 60

test(`a storm of ${faults} faults leaves nothing lost, doubled or out of order (seed ${seed})`, async () => {
  const result = await runStorm({ seed, faults })
  const text = summary({ seed, faults }, result)
  process.stdout.write(`${text}\n`)
  expect(result.violations, text).toEqual([])
}, 900_000)
