import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { databaseTime } from '@licensing/database/time-queries'
import { invalid } from '@licensing/grpc/errors'
import { trimUnseen } from '@licensing/formats/licence-key'
import { readMember } from '@licensing/proto/closed-sets'
import type { ImportOutcome, PlanStatus } from '@licensing/proto/closed-sets'
import { ImportLicencesResponseSchema } from '@licensing/proto/licensing'
import type {
  ImportItem,
  ImportLicencesRequest,
  ImportLicencesResponse,
  ImportResultSchema,
} from '@licensing/proto/licensing'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { LicensingDependencies, Handler } from '../dependencies.ts'
import { askCatalog } from '../plans/ask-catalog.ts'
import { findPlans } from '../plans/plan-queries.ts'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import { newLicenceKey } from '../lifecycle/licence-key.ts'
import { findByLegacyKey, insertLicences } from './issue-queries.ts'
import type { NewImport } from './issue-queries.ts'

const maxItems = 500

type Result = MessageInitShape<typeof ImportResultSchema> & { result: ImportOutcome }
type PlanState = PlanStatus | 'unknown' | 'unavailable'

/** @param unfinishedAnswer the stored answer of an earlier, interrupted call with the same idempotency key */
export const importLicences: Handler<'importLicences'> = async (deps, given, unfinishedAnswer) => {
  const items = given.items.map((item) => ({ ...item, legacyKey: trimUnseen(item.legacyKey) }))
  const request = { ...given, items }
  if (items.length === 0 || items.length > maxItems) throw invalid('/items', `1 to ${maxItems} items`)
  const results = request.dryRun ? await dryRun(deps, request) : await run(deps, request, unfinishedAnswer)
  const count = (result: Result['result']) => results.filter((item) => item.result === result).length
  return {
    items: results,
    created: count('created'),
    existing: count('existing'),
    failed: count('failed'),
  }
}

interface Entry {
  place: number
  item: ImportItem
  /** The id of the licence if one is made. */
  id: string
}

type Results = Map<number, Result>

async function run(
  deps: LicensingDependencies,
  request: ImportLicencesRequest,
  unfinishedAnswer: ImportLicencesResponse | undefined,
): Promise<Result[]> {
  const results = importedBefore(unfinishedAnswer)
  const isOpen = (entry: Entry) => !results.has(entry.place)
  let entries = request.items.map((item, place): Entry => ({ place, item, id: newId('lic') })).filter(isOpen)
  // A second round happens only if a plan arrives or is restored between two statements.
  while (entries.length > 0) {
    for (const [place, result] of await importOnce(deps, request, entries, results))
      results.set(place, result)
    entries = entries.filter(isOpen)
  }
  return request.items.map((_, place) => results.get(place)!)
}

// The interrupted call had not reached items without a result.
function importedBefore(unfinishedAnswer: ImportLicencesResponse | undefined): Results {
  const results: Results = new Map()
  unfinishedAnswer?.items.forEach(({ legacyKey, result, licenceId }, place) => {
    if (result === '') return
    results.set(place, {
      legacyKey,
      result: readMember('importResult', result),
      ...(licenceId && { licenceId }),
    })
  })
  return results
}

async function importOnce(
  deps: LicensingDependencies,
  request: ImportLicencesRequest,
  entries: Entry[],
  before: Results,
): Promise<Results> {
  const inserted = await importBatch(deps, request, entries, before)
  const results = createdOf(entries, inserted)
  const insertedAt = new Map([...results].map(([place, { legacyKey }]) => [legacyKey, place]))
  const refused = entries.filter((entry) => !inserted.has(entry.id))
  // If a legacy key occurs twice and the second item was imported, the first item does not count as existing.
  const found = refused.filter(({ item, place }) => !((insertedAt.get(item.legacyKey) ?? -1) > place))
  const existing = await findExisting(deps, request, found)
  for (const { place, item } of found) {
    const id = existing.get(item.legacyKey)
    if (id !== undefined) results.set(place, imported('existing', item, id))
  }
  const rest = refused.filter(({ place }) => !results.has(place))
  const plans = await planStates(deps, request, rest)
  const now = await databaseTime(deps.sql)
  for (const { place, item } of rest) {
    const result = failure(item, plans.get(item.planId), now)
    if (result) results.set(place, result)
  }
  return results
}

/** Makes the licences of all valid items. With an idempotency key it stores the partial answer in the same transaction. */
function importBatch(
  deps: LicensingDependencies,
  request: ImportLicencesRequest,
  entries: Entry[],
  before: Results,
): Promise<Map<string, Date>> {
  const valid = entries.filter(({ item }) => !itemProblem(item)).map((entry) => newImport(request, entry))
  const answerOf = (inserted: Map<string, Date>) => {
    const now = createdOf(entries, inserted)
    return { items: request.items.map((_, place) => before.get(place) ?? now.get(place) ?? {}) }
  }
  const answer = { schema: ImportLicencesResponseSchema, toMessage: answerOf, isUnfinished: true }
  return deps.change((tx) => insertLicences(tx, { kind: 'imported', licences: valid }, 'wait'), { answer })
}

function createdOf(entries: Entry[], inserted: Map<string, Date>): Results {
  const created = entries.filter(({ id }) => inserted.has(id))
  return new Map(created.map(({ place, item, id }) => [place, imported('created', item, id)]))
}

/** Returns the answers of an import without writing anything. */
async function dryRun(deps: LicensingDependencies, request: ImportLicencesRequest): Promise<Result[]> {
  const entries = request.items.map((item) => ({ item }))
  const existing: Map<string, string | undefined> = await findExisting(deps, request, entries)
  const plans = await planStates(deps, request, entries)
  const now = await databaseTime(deps.sql)
  return request.items.map((item) => {
    if (existing.has(item.legacyKey)) return imported('existing', item, existing.get(item.legacyKey))
    const failed = failure(item, plans.get(item.planId), now)
    if (failed) return failed
    existing.set(item.legacyKey, undefined)
    return imported('created', item, undefined)
  })
}

async function findExisting(
  { sql }: LicensingDependencies,
  request: ImportLicencesRequest,
  entries: { item: ImportItem }[],
): Promise<Map<string, string>> {
  const keys = entries
    .map(({ item }) => item.legacyKey)
    .filter((key) => !problemOfText(key, textLimits.reference))
  return keys.length === 0 ? new Map() : findByLegacyKey(sql, request, keys)
}

/** The states of the items' plans. Plans without a copy are requested from catalog once. */
async function planStates(
  deps: LicensingDependencies,
  { accountId, applicationId }: ImportLicencesRequest,
  entries: { item: ImportItem }[],
): Promise<Map<string, PlanState>> {
  const valid = entries.filter(({ item }) => !itemProblem(item))
  const wanted = [...new Set(valid.map(({ item }) => item.planId))]
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
    states.set(planId, answer === 'unavailable' ? 'unavailable' : 'unknown')
  }
  if (missing.length > 0) await look()
  return states
}

/** @returns undefined if the item can be imported */
function failure(item: ImportItem, plan: PlanState | undefined, now: Date): Result | undefined {
  const end = item.fields?.expiresOn
  const isPast = end && timestampDate(end) <= now
  const problem = itemProblem(item) ?? (isPast ? 'expires_on must be in the future' : undefined)
  if (problem) return failed(item, 'validation_failed', problem)
  switch (plan) {
    case 'retired':
      return failed(item, 'plan_archived', `plan ${item.planId} is retired: restore it first`)
    case 'unavailable':
      return failed(item, 'unavailable', `plan ${item.planId} is not known here yet: import again later`)
    case 'active':
      return undefined
    case 'unknown':
    case undefined:
      return failed(item, 'not_found', `there is no plan ${item.planId} in this application`)
  }
}

function itemProblem({ legacyKey, planId, fields, problem }: ImportItem): string | undefined {
  for (const [name, text] of [
    ['legacy_key', legacyKey],
    ['plan_id', planId],
  ] as const) {
    const wrong = problemOfText(text, textLimits.reference)
    if (wrong) return `${name} ${wrong}`
  }
  const problems: string[] = []
  licenceFields.ofNew(fields, (pointer, wrong) => void problems.push(`${pointer.slice(1)} ${wrong}`))
  return problem ?? problems[0]
}

function newImport(
  { accountId, applicationId, actor }: ImportLicencesRequest,
  { item, id }: Entry,
): NewImport {
  return {
    id,
    key: newLicenceKey(),
    account_id: accountId,
    application_id: applicationId,
    plan_id: item.planId,
    actor,
    ...licenceFields.ofNew(item.fields),
    legacy_key: item.legacyKey,
  }
}

function imported(
  result: 'created' | 'existing',
  { legacyKey }: ImportItem,
  licenceId: string | undefined,
): Result {
  return { legacyKey, result, ...(licenceId !== undefined && { licenceId }) }
}

function failed({ legacyKey }: ImportItem, code: string, detail: string): Result {
  return { legacyKey, result: 'failed', error: { code, detail } }
}
