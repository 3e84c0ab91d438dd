import { Option } from '@commander-js/extra-typings'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { Interrupted, Refusal } from '../command/failures.ts'
import { text, wholeNumber } from '../command/parsers.ts'
import { readTextFile } from '../command/text-file.ts'
import { readCatalogue } from './catalogue.ts'
import { planChanges } from './plan-changes.ts'
import type { Change } from './plan-changes.ts'
import { readWanted } from './wanted.ts'
import type { FileProblem } from './wanted.ts'

export function applyCommand(program: CommandUnknownOpts, { out, service, onStop }: Context): void {
  program
    .command('apply')
    .description('Apply entitlements and plans from a file to the application')
    .argument('<file>', 'a YAML file as export prints it', text)
    .option('--dry-run', 'print the difference without applying it')
    .addOption(
      new Option('--timeout <seconds>', 'give up if reading the file and the application takes longer')
        .argParser(wholeNumber(1, 86_400))
        .default(60),
    )
    .addHelpText('after', examples('apply licensing.yaml --dry-run', 'apply licensing.yaml'))
    .action(async (file, { dryRun: isDry = false, timeout }) => {
      const { backend, appId: findApp } = await service()
      const read = async () => {
        const { wanted, flaws } = readWanted(await readTextFile(file))
        refuse(file, flaws)
        const appId = await findApp()
        const planned = planChanges(wanted, await readCatalogue(backend, appId))
        refuse(file, planned.flaws)
        return { appId, changes: planned.changes }
      }
      const { appId, changes } = await within(timeout, read())
      const texts = changes.map((change) => change.text)
      if (!out.json) for (const each of texts) out.line(each, each)
      if (!isDry) {
        let made = 0
        const progress = () => `${made} of ${changes.length} changes were made`
        onStop(() => {
          out.message(`${progress()}; apply the file again`)
          return 1
        })
        await makeAll(file, changes, async (change) => {
          await change.make(backend, appId)
          made++
          out.progress(progress())
        })
      }
      if (out.json) out.result({ changes: texts, applied: !isDry }, [])
      else if (texts.length === 0) out.message('nothing to change')
      else out.message(isDry ? 'a dry run: nothing was changed' : `${texts.length} changed`)
    })
}

/** Limits the time of reading. Reading changes nothing, so it is not cancelled. */
async function within<Result>(seconds: number, reading: Promise<Result>): Promise<Result> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    const message = `reading the file and the application took longer than ${seconds} s; nothing was changed`
    timer = setTimeout(() => reject(new Refusal('timeout', message)), seconds * 1000)
  })
  return Promise.race([reading, late]).finally(() => clearTimeout(timer))
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

/** Refuses the whole file, before anything is written. */
function refuse(file: string, flaws: readonly FileProblem[]): void {
  if (flaws.length === 0) return
  const list = flaws.map(
    ({ line, key, message }) => `${file}:${line}: ${key === '' ? '' : `${key} `}${message}`,
  )
  const errors = flaws.map((flaw) => ({ file, ...flaw }))
  throw new Refusal('invalid_file', 'the file has errors; nothing was changed', { errors }, list)
}
