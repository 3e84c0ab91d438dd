import type { Command } from '../command/command.ts'
import { Refusal } from '../command/failures.ts'
import { readTextFile } from '../command/text-file.ts'
import { readCatalogue } from './catalogue.ts'
import { planChanges } from './plan-changes.ts'
import { readWanted } from './wanted.ts'
import type { Flaw } from './wanted.ts'

export const applyCatalogue: Command = {
  name: 'apply',
  argument: 'FILE.yaml',
  summary: 'Make the application’s entitlements and plans what a file says',
  options: { 'dry-run': { type: 'boolean', help: 'show the difference, and change nothing' } },
  examples: ['apply licensing.yaml --dry-run', 'apply licensing.yaml'],
  async run({ argument: file, backend, appId: findApp, flag, out }) {
    const { wanted, flaws } = readWanted(await readTextFile(file))
    refuse(file, flaws)
    const appId = await findApp()
    const planned = planChanges(wanted, await readCatalogue(backend, appId))
    refuse(file, planned.flaws)
    const isDry = flag('dry-run')
    const texts = planned.changes.map(({ text }) => text)
    if (!out.json) for (const text of texts) out.line(text, text)
    if (!isDry) for (const change of planned.changes) await change.make(backend, appId)
    if (out.json) out.result({ changes: texts, applied: !isDry }, '')
    else if (texts.length === 0) out.message('nothing to change')
    else out.message(isDry ? 'a dry run: nothing was changed' : `${texts.length} changed`)
    return 0
  },
}

/** The file is refused whole: nothing has been written yet. */
function refuse(file: string, flaws: readonly Flaw[]): void {
  if (flaws.length === 0) return
  const list = flaws.map(({ line, message }) => `${file}:${line}: ${message}`)
  const errors = flaws.map(({ line, message }) => ({ file, line, message }))
  throw new Refusal('invalid_file', `the file is refused, and nothing was changed\n${list.join('\n')}`, {
    errors,
  })
}
