import { archiveNeighbours } from './archive-neighbours.ts'
import { atRest } from './at-rest.ts'
import { billing } from './billing.ts'
import { changeToDelivery } from './change-to-delivery.ts'
import { gateway } from './gateway.ts'
import { products } from './products.ts'
import { keepBaseline, printSection, readBaseline, worseThan, writeReport } from './report.ts'
import type { Section } from './report.ts'
import { scale } from './scale.ts'
import { support } from './support.ts'
import { suspensions } from './suspensions.ts'
import { tails } from './tails.ts'
import { unknownKeys } from './unknown-keys.ts'
import { webhooksIsolation } from './webhooks-isolation.ts'
import { webhooksNeighbours } from './webhooks-neighbours.ts'
import { webhooksPaused } from './webhooks-paused.ts'
import { webhooksSpeed } from './webhooks-speed.ts'

// `npm run bench [-- NAME…]`: loads its own stack and prints figures with floors measured in the same run. With
// `--compare` it ends with exit code 1 if a ratio is more than a fifth worse than in `results/baseline.json`; with `--keep`
// its ratios are written there.
const sections: Record<string, () => Promise<Section>> = {
  gateway,
  'change-to-delivery': changeToDelivery,
  suspensions,
  tails,
  scale,
  billing,
  support,
  products,
  'unknown-keys': unknownKeys,
  'archive-neighbours': archiveNeighbours,
  'webhooks-isolation': webhooksIsolation,
  'webhooks-neighbours': webhooksNeighbours,
  'webhooks-paused': webhooksPaused,
  'webhooks-speed': webhooksSpeed,
  'at-rest': atRest,
}

const options = ['--profile', '--compare', '--keep']
const wanted = process.argv.slice(2).filter((argument) => !options.includes(argument))
const unknown = wanted.filter((name) => !Object.hasOwn(sections, name))
if (unknown.length > 0) {
  process.stderr.write(
    `no such measurement: ${unknown.join(', ')}; there are ${Object.keys(sections).join(', ')}\n`,
  )
  process.exit(2)
}
const done: Section[] = []
for (const [name, measure] of Object.entries(sections)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  process.stdout.write(`measuring ${name} …\n`)
  const section = await measure()
  printSection(section)
  done.push(section)
}
process.stdout.write(`\nwritten to ${await writeReport(done)}\n`)
if (process.argv.includes('--keep')) await keepBaseline(done)
const worse = process.argv.includes('--compare') ? worseThan(await readBaseline(), done) : []
for (const line of worse) process.stdout.write(`worse than before: ${line}\n`)
process.exit(worse.length > 0 ? 1 : 0)
