import type { MessageInitShape } from '@bufbuild/protobuf'
import { createBatcher } from '@licensing/changes/batcher'
import { LostRace } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable, isLockTimeout } from '@licensing/database/problems'
import { append, currentOrigin } from '@licensing/events/outbox'
import type { Origin } from '@licensing/events/outbox'
import { callContext } from '@licensing/grpc/call-context'
import type { ServiceError } from '@licensing/grpc/errors'
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

type Outcome =
  | { kind: 'done'; row: LicenceRow }
  | { kind: 'refused'; error: ServiceError }
  // Another transaction has locked the licence or its plan, or has changed it meanwhile.
  | { kind: 'busy' }

const maxBatchSize = 100

/**
 * The handler of a verb of the vendor: locks the licence and changes it if its status allows that; otherwise throws a
 * conflict. Calls of an account that arrive together share a transaction. A licence gets a separate transaction if another
 * one has locked it, or if its call has an Idempotency-Key.
 */
export function createVerbHandler({ change }: LicensingDependencies, verb: LicenceVerb): ChangeLicence {
  const changeTogether = createBatcher<Call, Outcome>(
    (calls) =>
      change((tx) => changeInTransaction(tx, verb, calls, 'skip'), { maxWaitMs: 0 }).catch(
        (error: unknown) => {
          if (isLockTimeout(error)) return calls.map(() => ({ kind: 'busy' }))
          throw error
        },
      ),
    { maxBatchSize, isTransient: isDatabaseUnavailable, queueOf: ({ accountId }) => accountId },
  )
  const answer = { schema: LicenceSchema, toMessage: licenceMessage }
  const changeAlone = (call: Call) =>
    change(
      async (tx) => {
        const [outcome] = await changeInTransaction(tx, verb, [call], 'wait')
        if (outcome!.kind === 'busy') throw new LostRace()
        return rowOf(outcome!)
      },
      { answer },
    )
  return async (request) => {
    const call = { ...request, origin: currentOrigin() }
    const outcome: Outcome = callContext()?.idempotencyKey ? { kind: 'busy' } : await changeTogether(call)
    return licenceMessage(outcome.kind === 'busy' ? await changeAlone(call) : rowOf(outcome))
  }
}

function rowOf(outcome: Exclude<Outcome, { kind: 'busy' }>): LicenceRow {
  if (outcome.kind === 'refused') throw outcome.error
  return outcome.row
}

async function changeInTransaction(
  tx: Transaction,
  verb: LicenceVerb,
  calls: Call[],
  onLocked: OnLocked,
): Promise<Outcome[]> {
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
  const outcomes = new Map<Call, Outcome>(
    changed.map((row) => [firstCalls.get(row.id)!, { kind: 'done', row }]),
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
function outcomeOf(verb: LicenceVerb, call: Call, found: FoundLicence | undefined): Outcome {
  if (!found) return { kind: 'refused', error: licenceNotFound(call) }
  const { from, plan = found.plan_status, to, repeatable }: BulkChange = bulkChanges[verb]
  if (from.includes(found.status)) {
    if (plan === found.plan_status) return { kind: 'busy' }
    return { kind: 'refused', error: planArchived(found, verb) }
  }
  if (repeatable && found.status === to) return { kind: 'done', row: found }
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
  if (!callContext()?.idempotencyKey || request.onlyApplicationId === undefined) return
  const [found] = await findLicences(sql, [request])
  if (!found) throw licenceNotFound(request)
}
