import type { MessageInitShape } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { invalid } from '@licensing/grpc/errors'
import type {
  ImportItem,
  ImportLicencesRequest,
  ImportLicencesResponseSchema,
  ImportResultSchema,
} from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { askCatalog } from '../plans/ask-catalog.ts'
import { findPlans } from '../plans/plan-queries.ts'
import { findByLegacyKey, mintImports } from './import-queries.ts'
import type { NewImport } from './import-queries.ts'
import { newLicenceKey } from './licence-key.ts'
import { problemOf } from './short-text.ts'

const mostItems = 500

type Result = MessageInitShape<typeof ImportResultSchema> & { result: 'created' | 'existing' | 'failed' }
type PlanState = 'active' | 'retired' | 'unknown' | 'away'

export async function importLicences(
  deps: LicensingDeps,
  request: ImportLicencesRequest,
): Promise<MessageInitShape<typeof ImportLicencesResponseSchema>> {
  const { items } = request
  if (items.length === 0 || items.length > mostItems) throw invalid('/items', `1 to ${mostItems} items`)
  const results = request.dryRun ? await rehearse(deps, request) : await run(deps, request)
  const count = (result: Result['result']) => results.filter((item) => item.result === result).length
  return {
    items: results,
    created: count('created'),
    existing: count('existing'),
    failed: count('failed'),
  }
}

async function run(deps: LicensingDeps, request: ImportLicencesRequest): Promise<Result[]> {
  const results: (Result | undefined)[] = request.items.map(() => undefined)
  const ids = request.items.map(() => newId('lic'))
  // A plan that comes or is restored between two statements is the only reason for a second round.
  while (results.includes(undefined)) {
    const places = [...request.items.keys()].filter((place) => results[place] === undefined)
    const sound = places.filter((place) => !itemProblem(request.items[place]!))
    const minted = await mintImports(
      deps.sql,
      request,
      sound.map((place) => newImport(request.items[place]!, ids[place]!)),
    )
    const refused = places.filter((place) => !minted.has(ids[place]!))
    for (const place of sound) {
      if (minted.has(ids[place]!)) {
        results[place] = created(request.items[place]!, ids[place])
      }
    }
    if (refused.length === 0) break
    const refusedItems = refused.map((place) => request.items[place]!)
    const existing = await findExisting(deps, request, refusedItems)
    const plans = await planStates(
      deps,
      request,
      refusedItems.filter((item) => !existing.has(item.legacyKey)),
    )
    for (const place of refused) {
      const item = request.items[place]!
      results[place] = existingOrFailed(item, existing.get(item.legacyKey), plans.get(item.planId))
    }
  }
  return results.map((result) => result!)
}

/** A dry run: the same answers, and nothing written. */
async function rehearse(deps: LicensingDeps, request: ImportLicencesRequest): Promise<Result[]> {
  const existing: Map<string, string | undefined> = await findExisting(deps, request, request.items)
  const plans = await planStates(deps, request, request.items)
  return request.items.map((item) => {
    if (existing.has(item.legacyKey)) return existingResult(item, existing.get(item.legacyKey))
    const refused = existingOrFailed(item, undefined, plans.get(item.planId))
    if (refused) return refused
    existing.set(item.legacyKey, undefined)
    return created(item, undefined)
  })
}

async function findExisting(
  { sql }: LicensingDeps,
  request: ImportLicencesRequest,
  items: ImportItem[],
): Promise<Map<string, string>> {
  const keys = items.map((item) => item.legacyKey).filter((key) => !problemOf(key))
  return keys.length === 0 ? new Map() : findByLegacyKey(sql, request, keys)
}

/** How the plans of these items stand; those not known here are asked of catalog once. */
async function planStates(
  deps: LicensingDeps,
  { accountId, applicationId }: ImportLicencesRequest,
  items: ImportItem[],
): Promise<Map<string, PlanState>> {
  const wanted = [...new Set(items.filter((item) => !itemProblem(item)).map((item) => item.planId))]
  const states = new Map<string, PlanState>()
  if (wanted.length === 0) return states
  const look = async () => {
    for (const plan of await findPlans(deps.sql, { accountId, applicationId }, wanted)) {
      states.set(plan.id, plan.status)
    }
  }
  await look()
  const missing = wanted.filter((planId) => !states.has(planId))
  for (const planId of missing) {
    const answer = await askCatalog(deps, { accountId, applicationId, planId })
    states.set(planId, answer === 'away' ? 'away' : 'unknown')
  }
  if (missing.length > 0) await look()
  return states
}

/** Undefined where nothing stands in the way of the item. */
function existingOrFailed(
  item: ImportItem,
  licenceId: string | undefined,
  plan: PlanState | undefined,
): Result | undefined {
  if (licenceId !== undefined) return existingResult(item, licenceId)
  const problem = itemProblem(item)
  if (problem) return failed(item, 'validation_failed', problem)
  switch (plan) {
    case 'retired':
      return failed(item, 'plan_archived', `plan ${item.planId} is retired: restore it first`)
    case 'away':
      return failed(item, 'unavailable', `plan ${item.planId} is not known here yet: import again later`)
    case 'active':
      return undefined
    case 'unknown':
    case undefined:
      return failed(item, 'not_found', `there is no plan ${item.planId} in this application`)
  }
}

function itemProblem(item: ImportItem): string | undefined {
  for (const [name, text] of [
    ['legacy_key', item.legacyKey],
    ['external_ref', item.externalRef],
    ['plan_id', item.planId],
  ] as const) {
    const problem = problemOf(text)
    if (problem) return `${name} ${problem}`
  }
  return undefined
}

function newImport({ legacyKey, externalRef, planId }: ImportItem, id: string): NewImport {
  return { id, key: newLicenceKey(), legacyKey, externalRef, planId }
}

function created({ legacyKey }: ImportItem, licenceId: string | undefined): Result {
  return { legacyKey, result: 'created', ...(licenceId !== undefined && { licenceId }) }
}

function existingResult({ legacyKey }: ImportItem, licenceId: string | undefined): Result {
  return { legacyKey, result: 'existing', ...(licenceId !== undefined && { licenceId }) }
}

function failed({ legacyKey }: ImportItem, code: string, detail: string): Result {
  return { legacyKey, result: 'failed', error: { code, detail } }
}
