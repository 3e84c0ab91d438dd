import type { MessageInitShape } from '@bufbuild/protobuf'
import type { CallOutcome } from '@licensing/changes/claims'
import { createGatheredChange } from '@licensing/changes/gathered'
import type { Transaction } from '@licensing/database/connect'
import { append, currentOrigin } from '@licensing/events/outbox'
import type { Origin } from '@licensing/events/outbox'
import type { LicenceVerb } from '@licensing/proto/closed-sets'
import { LicenceSchema } from '@licensing/proto/licensing'
import type { LifecycleRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { changeLicences, findLicences, licencesToChange, lockPlans } from '../lifecycle/licence-queries.ts'
import type { FoundLicence, OnLocked } from '../lifecycle/licence-queries.ts'
import { licenceMessage, licenceEvent } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { announcements, bulkChanges } from '../lifecycle/licence.ts'
import type { BulkChange } from '../lifecycle/licence.ts'
import { conflictOf, licenceNotFound, planArchived } from '../lifecycle/refusals.ts'

type ChangeLicence = (request: LifecycleRequest) => Promise<MessageInitShape<typeof LicenceSchema>>

/** A call of a verb. Calls of several origins share a transaction, so each keeps its origin for its event. */
type Call = LifecycleRequest & { origin: Origin }

/**
 * The handler of a verb of the vendor: locks the licence and changes it if its status allows that; otherwise throws a
 * conflict. Calls of an account that arrive together share a transaction.
 */
export function createVerbHandler({ change }: LicensingDependencies, verb: LicenceVerb): ChangeLicence {
  const changeLicence = createGatheredChange<Call, typeof LicenceSchema, LicenceRow>(change, {
    work: (tx, calls, onLocked) => changeInTransaction(tx, verb, calls, onLocked),
    answer: { schema: LicenceSchema, toMessage: licenceMessage },
    queueOf: ({ accountId }) => accountId,
  })
  return async (request) => licenceMessage(await changeLicence({ ...request, origin: currentOrigin() }))
}

async function changeInTransaction(
  tx: Transaction,
  verb: LicenceVerb,
  calls: Call[],
  onLocked: OnLocked,
): Promise<CallOutcome<LicenceRow>[]> {
  const change: BulkChange = bulkChanges[verb]
  // Lock order: plans before licences.
  const planIds = change.plan && (await lockPlans(tx, calls, { status: change.plan, onLocked }))
  const firstCalls = new Map(calls.toReversed().map((call) => [call.licenceId, call]))
  const selection = licencesToChange(tx, [...firstCalls.values()], {
    from: change.from,
    planIds,
    onLocked,
  })
  const changed = await changeLicences(tx, selection, change)
  const outcomes = new Map<Call, CallOutcome<LicenceRow>>(
    changed.map((row) => [firstCalls.get(row.id)!, { kind: 'done', made: row }]),
  )
  await append(
    tx,
    ...changed.map((row) => ({
      ...licenceEvent(announcements[change.to].emits, row, row.plan_id),
      origin: firstCalls.get(row.id)!.origin,
    })),
  )
  // If two calls are for one licence, the second one finds the result of the first.
  const others = calls.filter((call) => !outcomes.has(call))
  if (others.length > 0) {
    const found = await findLicences(tx, others)
    others.forEach((call, at) => outcomes.set(call, outcomeOf(verb, call, found[at])))
  }
  return calls.map((call) => outcomes.get(call)!)
}

/** The outcome for a licence that the verb has not changed. */
function outcomeOf(verb: LicenceVerb, call: Call, found: FoundLicence | undefined): CallOutcome<LicenceRow> {
  if (!found) return { kind: 'refused', error: licenceNotFound(call) }
  const { from, plan = found.plan_status, to, repeatable }: BulkChange = bulkChanges[verb]
  if (from.includes(found.status)) {
    if (plan === found.plan_status) return { kind: 'busy' }
    return { kind: 'refused', error: planArchived(found, verb) }
  }
  if (repeatable && found.status === to) return { kind: 'done', made: found }
  return { kind: 'refused', error: conflictOf(found, found.plan_status, verbRules[verb]) }
}

const verbRules: Record<LicenceVerb, string> = {
  suspend: 'only an active licence can be suspended',
  reactivate: 'only a suspended licence can be reactivated',
  revoke: 'a retired licence cannot be revoked',
  retire: 'it cannot be retired',
}

/**
 * A stored answer belongs to an account and its idempotency key. An API key that is bound to one application gets it only
 * if the licence belongs to that application.
 */
export async function requireVisible(
  { sql }: Pick<LicensingDependencies, 'sql'>,
  request: LifecycleRequest,
): Promise<void> {
  if (request.onlyApplicationId === undefined) return
  const [found] = await findLicences(sql, [request])
  if (!found) throw licenceNotFound(request)
}
