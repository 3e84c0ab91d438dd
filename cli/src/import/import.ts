import { readKeyFile, trimmedText, type KeyRow } from '@licensing/csv/key-file'
import type { LicensingBackend } from '@licensing/sdk/backend'
import type { Call, Command } from '../command/command.ts'
import { readParts } from '../command/text-file.ts'

/** The most rows that one call may have. */
const ROWS_A_CALL = 500

interface BadRow {
  readonly line: number
  readonly reason: string
}

export const importLicences: Command = {
  name: 'import',
  argument: 'FILE.csv',
  summary: 'Import licences from a CSV file with the columns legacy_key, external_ref, plan_code',
  options: { 'dry-run': { type: 'boolean', help: 'check the file and report each row without importing' } },
  examples: ['import licences.csv --dry-run', 'import licences.csv', 'import licences.csv --json'],
  async run(call) {
    const { argument: file, backend, out } = call
    const isDry = call.flag('dry-run')
    const all = await readParts(file, readKeyFile)
    const appId = await call.appId()
    const plans = await planIds(backend, appId)
    const total = { created: 0, existing: 0, failed: 0 }
    const report = (rejected: readonly BadRow[]) => {
      total.failed += rejected.length
      for (const { line, reason } of rejected) out.message(`${file}:${line}: ${reason}`)
    }
    const trimmed = all.filter(({ isTrimmed }) => isTrimmed).map(({ line }) => line)
    if (trimmed.length > 0) out.message(`${file}: ${trimmedText(trimmed)}`)
    report(all.flatMap(({ line, flaw }) => (flaw === undefined ? [] : [{ line, reason: flaw }])))
    const rows = all.filter(({ flaw }) => flaw === undefined)
    const known = new Set<string>()
    for (let done = 0; done < rows.length; done += ROWS_A_CALL) {
      const batch = rows.slice(done, done + ROWS_A_CALL)
      const results = await importBatch(call, { appId, plans, isDry }, batch).catch((error: unknown) => {
        if (done > 0 && !isDry)
          out.message(`${done} of ${rows.length} rows were imported; run the command again`)
        throw error
      })
      report(results.flatMap(({ line, reason }) => (reason === undefined ? [] : [{ line, reason }])))
      for (const { result, legacyKey } of results) {
        if (result === 'failed') continue
        // A dry run does not know what an earlier call of it would have made.
        total[result === 'existing' || known.has(legacyKey) ? 'existing' : 'created'] += 1
        if (isDry) known.add(legacyKey)
      }
      out.progress(`${Math.min(done + ROWS_A_CALL, rows.length)} of ${rows.length} rows`)
    }
    const { created, existing, failed } = total
    out.result(total, [
      isDry
        ? `${created} to be created, ${existing} existing, ${failed} failed; nothing was imported`
        : `${created} created, ${existing} existing, ${failed} failed`,
    ])
    return failed === 0 ? 0 : 1
  },
}

interface Target {
  readonly appId: string
  readonly plans: ReadonlyMap<string, string>
  readonly isDry: boolean
}

async function importBatch(
  { backend, signal }: Pick<Call, 'backend' | 'signal'>,
  { appId, plans, isDry }: Target,
  rows: readonly KeyRow[],
) {
  // An unknown plan is left to the service to refuse: a licence that was imported before is `existing` all the same.
  const items = rows.map(({ legacyKey, externalRef, planCode }) => ({
    legacy_key: bounded(legacyKey),
    external_ref: bounded(externalRef),
    plan_id: plans.get(planCode) ?? 'unknown',
  }))
  const answer = await backend.post('/v1/apps/{app_id}/licences/import', {
    path: { app_id: appId },
    body: { items, ...(isDry && { dry_run: true }) },
    signal,
  })
  return answer.items.map(({ result, error }, at) => {
    const { line, legacyKey, planCode } = rows[at]!
    const isUnknownPlan = error?.code === 'not_found' && !plans.has(planCode)
    const reason = isUnknownPlan ? `no plan has the code ${planCode}` : error?.detail
    return { line, legacyKey, result, reason }
  })
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
