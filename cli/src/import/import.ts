import type { LicensingBackend } from '@licensing/sdk/backend'
import type { Call, Command } from '../command/command.ts'
import { readTextFile } from '../command/text-file.ts'
import { readLegacyRows } from './legacy-rows.ts'
import type { BadRow, LegacyRow } from './legacy-rows.ts'

/** The most rows that one call may have. */
const ROWS_A_CALL = 500

export const importLicences: Command = {
  name: 'import',
  argument: 'FILE.csv',
  summary: 'Import licences from a CSV file with the columns legacy_key, external_ref, plan_code',
  options: {},
  examples: ['import licences.csv', 'import licences.csv --json'],
  async run(call) {
    const { argument: file, backend, out } = call
    const { rows, bad } = readLegacyRows(file, await readTextFile(file))
    const appId = await call.appId()
    const plans = await planIds(backend, appId)
    const total = { created: 0, existing: 0, failed: 0 }
    const report = (rejected: readonly BadRow[]) => {
      total.failed += rejected.length
      for (const { line, reason } of rejected) out.message(`${file}:${line}: ${reason}`)
    }
    report(bad)
    for (let done = 0; done < rows.length; done += ROWS_A_CALL) {
      const batch = rows.slice(done, done + ROWS_A_CALL)
      const { created, existing, rejected } = await importBatch(call, appId, plans, batch).catch(
        (error: unknown) => {
          if (done > 0) out.message(`${done} of ${rows.length} rows were imported; run the command again`)
          throw error
        },
      )
      total.created += created
      total.existing += existing
      report(rejected)
      out.progress(`${Math.min(done + ROWS_A_CALL, rows.length)} of ${rows.length} rows`)
    }
    out.result(total, `${total.created} created, ${total.existing} existing, ${total.failed} failed`)
    return total.failed === 0 ? 0 : 1
  },
}

async function importBatch(
  { backend, signal }: Pick<Call, 'backend' | 'signal'>,
  appId: string,
  plans: ReadonlyMap<string, string>,
  rows: readonly LegacyRow[],
) {
  // An unknown plan is left to the service to refuse: a licence that was imported before is `existing` all the same.
  const items = rows.map(({ legacy_key, external_ref, plan_code }) => ({
    legacy_key: bounded(legacy_key),
    external_ref: bounded(external_ref),
    plan_id: plans.get(plan_code) ?? 'unknown',
  }))
  const answer = await backend.post('/v1/apps/{app_id}/licences/import', {
    path: { app_id: appId },
    body: { items },
    signal,
  })
  const rejected = answer.items.flatMap(({ error }, at): BadRow[] => {
    if (error === null) return []
    const { line, plan_code: code } = rows[at]!
    const reason =
      plans.has(code) || error.code !== 'not_found' ? error.detail : `no plan has the code ${code}`
    return [{ line, reason }]
  })
  return { ...answer.summary, rejected }
}

/** One character more than is allowed is refused as a thousand are, and keeps the call within its size. */
const bounded = (value: string) => (value.length <= 512 ? value : Array.from(value).slice(0, 256).join(''))

async function planIds(backend: LicensingBackend, appId: string): Promise<Map<string, string>> {
  const ids = new Map<string, string>()
  for await (const { id, code } of backend.rows('/v1/apps/{app_id}/plans', { path: { app_id: appId } })) {
    ids.set(code, id)
  }
  return ids
}
