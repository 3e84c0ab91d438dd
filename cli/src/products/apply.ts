import type { Command } from '../command/command.ts'
import { Interrupted, Refusal } from '../command/failures.ts'
import { readTextFile } from '../command/text-file.ts'
import { readCatalogue } from './catalogue.ts'
import { planChanges } from './plan-changes.ts'
import type { Change } from './plan-changes.ts'
import { readWanted } from './wanted.ts'
import type { Flaw } from './wanted.ts'

export const applyCatalogue: Command = {
  name: 'apply',
  argument: 'FILE.yaml',
  summary: 'Apply entitlements and plans from a file to the application',
  options: { 'dry-run': { type: 'boolean', help: 'print the difference without applying it' } },
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
    if (!isDry) await makeAll(file, planned.changes, (change) => change.make(backend, appId))
    if (out.json) out.result({ changes: texts, applied: !isDry }, [])
    else if (texts.length === 0) out.message('nothing to change')
    else out.message(isDry ? 'a dry run: nothing was changed' : `${texts.length} changed`)
    return 0
  },
}

/**
 * Makes the changes in order. The service may refuse one, for example because a quota is reached. The changes before it have
 * been made then.
 */
async function makeAll(
  file: string,
  changes: readonly Change[],
  make: (change: Change) => Promise<unknown>,
): Promise<void> {
  const textsOf = (some: readonly Change[]) => some.map(({ text }) => text)
  for (const [at, change] of changes.entries()) {
    await make(change).catch((error: unknown) => {
      const { text, line } = change
      const [made, left] = [textsOf(changes.slice(0, at)), textsOf(changes.slice(at + 1))]
      const progress = [
        `${file}:${line}: stopped at: ${text}`,
        made.length === 0 ? 'nothing was changed before it' : `changed before it: ${made.join('; ')}`,
        ...(left.length === 0 ? [] : [`not begun: ${left.join('; ')}`]),
        'Fix the cause and apply the file again: completed changes are not repeated.',
      ]
      throw new Interrupted(error, progress, {
        changes: made,
        stopped_at: { file, line, change: text },
        not_begun: left,
      })
    })
  }
}

/** The file is refused whole: nothing has been written yet. */
function refuse(file: string, flaws: readonly Flaw[]): void {
  if (flaws.length === 0) return
  const list = flaws.map(({ line, message }) => `${file}:${line}: ${message}`)
  const errors = flaws.map(({ line, message }) => ({ file, line, message }))
  throw new Refusal('invalid_file', 'the file has errors; nothing was changed', { errors }, list)
}
