import { inCalls, itemsOf, refusalOf } from '@licensing/csv/import-calls'
import { ignoredText, readKeyFile, trimmedText, type KeyRow } from '@licensing/csv/key-file'
import type { LicensingBackend } from '@licensing/sdk/backend'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { Interrupted } from '../command/failures.ts'
import { text } from '../command/parsers.ts'
import { readParts } from '../command/text-file.ts'

interface RefusedRow {
  readonly line: number
  readonly reason: string
}

export function importCommand(program: CommandUnknownOpts, { out, service, onStop, fail }: Context): void {
  // `import` and `licences import` are the same command.
  const name = program.parent === null ? 'import' : `${program.name()} import`
  program
    .command('import')
    .description('Import licences from a CSV file with the columns legacy_key, external_ref, plan_code')
    .argument('<file>', 'the CSV file', text)
    .option('--dry-run', 'check the file and report each row without importing')
    .addHelpText(
      'after',
      examples(...['--dry-run', '', '--json'].map((flag) => `${name} licences.csv ${flag}`.trimEnd())),
    )
    .action(async (file, { dryRun: isDry = false }) => {
      const { backend, appId: findApp } = await service()
      let ignored: readonly string[] = []
      const all = await readParts(file, (pieces) => readKeyFile(pieces, (columns) => (ignored = columns)))
      const appId = await findApp()
      const plans = await planIds(backend, appId)
      const total = { created: 0, existing: 0, failed: 0 }
      const refused: RefusedRow[] = []
      const refuse = (rows: readonly RefusedRow[]) => {
        total.failed += rows.length
        refused.push(...rows)
        for (const { line, reason } of rows) out.message(`${file}:${line}: ${reason}`)
      }
      if (ignored.length > 0) out.message(`${file}: ${ignoredText(ignored)}`)
      const trimmed = all.filter(({ isTrimmed }) => isTrimmed).map(({ line }) => line)
      if (trimmed.length > 0) out.message(`${file}: ${trimmedText(trimmed)}`)
      refuse(all.flatMap(({ line, flaw }) => (flaw === undefined ? [] : [{ line, reason: flaw }])))
      const rows = all.filter(({ flaw }) => flaw === undefined)
      let done = 0
      const progress = () => `${done} of ${rows.length} rows ${isDry ? 'were checked' : 'were imported'}`
      onStop(() => {
        out.message(`${progress()}; run the command again`)
        return 1
      })
      out.progress(progress())
      const known = new Set<string>()
      for await (const batch of inCalls(rows)) {
        const results = await importBatch(backend, { appId, plans, isDry }, batch).catch((error: unknown) => {
          const details = { ...total, refused, done, rows: rows.length }
          throw new Interrupted(error, [`${progress()}; run the command again`], details)
        })
        refuse(results.flatMap(({ line, reason }) => (reason === undefined ? [] : [{ line, reason }])))
        for (const { result, legacyKey } of results) {
          if (result === 'failed') continue
          // A dry run creates nothing, so the service does not report keys of earlier calls as existing.
          total[result === 'existing' || known.has(legacyKey) ? 'existing' : 'created'] += 1
          if (isDry) known.add(legacyKey)
        }
        done += batch.length
        out.progress(progress())
      }
      const { created, existing, failed } = total
      out.result({ ...total, refused: refused.toSorted((a, b) => a.line - b.line) }, [
        isDry
          ? `${created} to be created, ${existing} existing, ${failed} failed; nothing was imported`
          : `${created} created, ${existing} existing, ${failed} failed`,
      ])
      if (failed > 0) fail()
    })
}

interface Target {
  readonly appId: string
  readonly plans: ReadonlyMap<string, string>
  readonly isDry: boolean
}

async function importBatch(
  backend: LicensingBackend,
  { appId, plans, isDry }: Target,
  rows: readonly KeyRow[],
) {
  const items = itemsOf(rows, plans)
  const answer = await backend.post('/v1/apps/{app_id}/licences/import', {
    path: { app_id: appId },
    body: { items, ...(isDry && { dry_run: true }) },
  })
  return answer.items.map(({ result, error }, at) => {
    const row = rows[at]!
    return { line: row.line, legacyKey: row.legacyKey, result, reason: refusalOf(row, error, plans) }
  })
}

async function planIds(backend: LicensingBackend, appId: string): Promise<Map<string, string>> {
  const ids = new Map<string, string>()
  for await (const { id, code } of backend.rows('/v1/apps/{app_id}/plans', { path: { app_id: appId } })) {
    ids.set(code, id)
  }
  return ids
}
