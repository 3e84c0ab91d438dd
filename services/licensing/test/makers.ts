import { fromBinary } from '@bufbuild/protobuf'
import type { Message } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { RequestOf } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import type {
  ImportLicencesResponse,
  IssueLicenceResponse,
  Licence,
  LicenceDetail,
  LicenceFields,
  LicenceFieldsSchema,
  ListLicencesRequestSchema,
  ListLicencesResponse,
} from '@licensing/proto/licensing'
import { toWebhook } from '@licensing/proto/webhook-events'
import { isFull } from '@licensing/test-support/drawn'
import { createHash } from 'node:crypto'
import { planCopy } from './harness.ts'
import type { Harness } from './harness.ts'
import { expirable, statusOf as ruledStatus } from '../src/lifecycle/licence.ts'
import type { LicenceState } from '../src/lifecycle/licence.ts'
import { bought, happen } from './purchases.ts'

export const actor = 'key_of_the_vendor'

/** A plan with a copy in licensing. */
export async function givenPlan(
  harness: Harness,
  fields: Parameters<typeof planCopy>[1] = {},
): Promise<PlanCopy> {
  const plan = planCopy(harness, fields)
  await harness.licensing.syncPlans({ plans: [plan] })
  return plan
}

export interface IssueFields {
  /** Default: a new plan. */
  planId?: string
  idempotencyKey?: string
  /** The text for the body hash. */
  body?: string
  externalRef?: string
  expiresOn?: Date
  domains?: string[]
  maxActivations?: number
  maxSeats?: number
  metadata?: Record<string, string>
  updatesUntil?: Date
  maxConcurrent?: number
  leaseMinutes?: number
}

export async function issue(harness: Harness, fields: IssueFields = {}): Promise<IssueLicenceResponse> {
  const { accountId, applicationId } = harness
  const { domains, maxActivations, maxSeats, maxConcurrent, leaseMinutes } = fields
  const { metadata: set, updatesUntil } = fields
  const restricted = domains ?? maxActivations ?? maxSeats ?? maxConcurrent
  return harness.licensing.issueLicence({
    accountId,
    applicationId,
    actor,
    idempotencyKey: fields.idempotencyKey ?? newId('evt'),
    bodyHash: createHash('sha256')
      .update(fields.body ?? 'body')
      .digest(),
    planId: fields.planId ?? (await givenPlan(harness)).id,
    fields: {
      externalRef: fields.externalRef ?? 'customer',
      expiresOn: fields.expiresOn && timestampFromDate(fields.expiresOn),
      metadata: set && { set },
      updatesUntil: updatesUntil && timestampFromDate(updatesUntil),
      ...(restricted !== undefined && {
        restrictions: { domains: domains ?? [], maxActivations, maxSeats, maxConcurrent, leaseMinutes },
      }),
    },
  })
}

export async function givenLicence(harness: Harness, fields: IssueFields = {}): Promise<Licence> {
  return (await issue(harness, fields)).licence!
}

/** The request of a verb. */
export function verbOn(harness: Harness, licence: { id: string }) {
  return { accountId: harness.accountId, licenceId: licence.id, actor }
}

export const detailOf = (harness: Harness, licence: { id: string }): Promise<LicenceDetail> =>
  harness.licensing.getLicence(verbOn(harness, licence))

export async function licenceOf(harness: Harness, licence: { id: string }): Promise<Licence> {
  return (await detailOf(harness, licence)).licence!
}

type GivenFields = Exclude<RequestOf<typeof LicenceFieldsSchema>, LicenceFields>
/** Null removes a field. */
export type FieldChange = { [Name in keyof GivenFields]: GivenFields[Name] | null }

/** The request that changes the given fields of a licence. */
export function changeOf(harness: Harness, licence: { id: string }, change: FieldChange) {
  const given = Object.entries(change).filter(([, value]) => value !== undefined)
  const columnOf = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  return {
    ...verbOn(harness, licence),
    fields: Object.fromEntries(given.filter(([, value]) => value !== null)) as GivenFields,
    mask: { paths: given.map(([name]) => columnOf(name)) },
  }
}

export const update = (harness: Harness, licence: { id: string }, change: FieldChange): Promise<Licence> =>
  harness.licensing.updateLicence(changeOf(harness, licence, change))

/** An item of an import. */
export const itemOf = ({
  legacyKey,
  planId,
  problem,
  ...fields
}: { legacyKey: string; planId: string; problem?: string } & GivenFields) => ({
  legacyKey,
  planId,
  problem,
  fields: { externalRef: 'customer', ...fields },
})

export function importItems(
  harness: Harness,
  items: Parameters<typeof itemOf>[0][],
  dryRun = false,
): Promise<ImportLicencesResponse> {
  const { accountId, applicationId } = harness
  return harness.licensing.importLicences({
    accountId,
    applicationId,
    actor,
    items: items.map(itemOf),
    dryRun,
  })
}

/** A licence in a status, reached by real calls. */
export async function givenLicenceIn(
  harness: Harness,
  status: LicenceStatus,
  givenPlanId?: string,
): Promise<Licence> {
  const planId = givenPlanId ?? (await givenPlan(harness)).id
  // Payments do not end an issued licence, so these statuses need a purchase.
  const isPaid = status === 'expired' || status === 'downgraded'
  const licence = isPaid ? await bought(harness, planId) : await givenLicence(harness, { planId })
  const verb = verbOn(harness, licence)
  const { licensing } = harness
  const reach: Record<LicenceStatus, () => Promise<unknown>> = {
    active: async () => {},
    suspended: () => licensing.suspendLicence(verb),
    revoked: () => licensing.revokeLicence(verb),
    retired: () => licensing.retireLicence(verb),
    expired: () => happen(harness, licence, 'a cancelled subscription'),
    downgraded: () => happen(harness, licence, 'a partial refund'),
  }
  await reach[status]()
  return licence
}

/** Retires a plan like catalog: an archived copy with a higher version. */
export function archive(harness: Harness, plan: PlanCopy): Promise<{ suspendedLicences: bigint }> {
  plan.version += 1n
  plan.archiveVersion = plan.version
  plan.status = 'retired'
  plan.archivedBy = actor
  return harness.licensing.archivePlan({ plan })
}

export async function restore(harness: Harness, plan: PlanCopy): Promise<void> {
  plan.version += 1n
  plan.status = 'active'
  await harness.licensing.syncPlans({ plans: [plan] })
}

export interface SentEvent {
  type: string
  object: Record<string, unknown>
  previous: Record<string, unknown> | null
}

/** The webhook events so far, in order, optionally of one licence. */
export async function events(harness: Harness, licence?: { id: string }): Promise<SentEvent[]> {
  const rows = await harness.sql<{ payload: Buffer }[]>`select payload from outbox order by position`
  return rows
    .map(({ payload }) =>
      toWebhook(fromBinary(EventSchema, fromBinary(EventBatchSchema, payload).events[0]!.event)),
    )
    .filter((event) => event !== null)
    .filter((event) => licence === undefined || event.object['licence_id'] === licence.id)
}

export async function eventTypes(harness: Harness, licence?: { id: string }): Promise<string[]> {
  return (await events(harness, licence)).map((event) => event.type)
}

/** The first page of a list, of the usual size. */
export const firstPage = { limit: 0, beforeId: '' }

export const list = (
  harness: Harness,
  filter: Partial<Exclude<RequestOf<typeof ListLicencesRequestSchema>, Message>> = {},
): Promise<ListLicencesResponse> => {
  const { accountId, applicationId } = harness
  return harness.licensing.listLicences({
    accountId,
    applicationId,
    ...firstPage,
    neverSeen: false,
    ...filter,
  })
}

export async function listedIds(...[harness, filter]: Parameters<typeof list>): Promise<string[]> {
  return (await list(harness, filter)).licences.map(({ id }) => id)
}

/** The first page of a licence's history. */
export const newest = { limit: 0, beforePosition: 0n }

/** A licence's history, oldest first, without times and positions. */
export async function history(harness: Harness, licence: { id: string }) {
  const { entries } = await harness.licensing.listLicenceHistory({
    accountId: harness.accountId,
    licenceId: licence.id,
    ...newest,
    limit: 200,
  })
  return entries.toReversed().map(({ type, from, to, actor, cause }) => ({ type, from, to, actor, cause }))
}

/** The changed fields in a licence's history, with who changed them, oldest first. */
export async function changesOf(
  harness: Harness,
  licence: { id: string },
): Promise<{ actor: string; changes: unknown }[]> {
  const request = { ...verbOn(harness, licence), ...newest, limit: 200 }
  const { entries } = await harness.licensing.listLicenceHistory(request)
  return entries
    .toReversed()
    .flatMap(({ actor, changesJson }) => (changesJson ? [{ actor, changes: JSON.parse(changesJson) }] : []))
}

export async function activeOn(harness: Harness, plan: { id: string }): Promise<bigint> {
  const { counts } = await harness.licensing.countActiveLicences({ planIds: [plan.id] })
  return counts[0]!
}

/** The number of active licences in the table of licences, to compare with the counters. */
export async function countedOn(harness: Harness, plan: { id: string }): Promise<bigint> {
  const [row] = await harness.sql<{ active: bigint }[]>`
    select count(*) as active from licences where plan_id = ${plan.id} and status = 'active'`
  return row!.active
}

/** Licences whose row in `licence_statuses` is missing or different, and rows without a licence. */
export async function findWrongStatuses({ sql }: Pick<Harness, 'sql'>): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select coalesce(l.id, s.licence_id) as id
    from licences l full join licence_statuses s on s.licence_id = l.id
    where (l.id, l.application_id, l.plan_id, l.status, l.expires_on)
      is distinct from (s.licence_id, s.application_id, s.plan_id, s.status, s.expires_on)`
  return rows.map((row) => row.id)
}

/** Licences whose status does not follow from their columns, except those that the sweep has yet to expire. */
export async function findUnruledStatuses({ sql }: Pick<Harness, 'sql'>): Promise<string[]> {
  const rows = await sql<(LicenceState & { id: string; end: Date | null; now: Date })[]>`
    select id, status, status_reason, hold, purchase, expires_on as end, now() as now from licences`
  return rows.flatMap(({ id, status, status_reason: reason, ...inputs }) => {
    const ruled = ruledStatus(inputs)
    const isUnswept = ruled.status === 'expired' && expirable.includes(status)
    return isUnswept || (ruled.status === status && ruled.status_reason === reason) ? [] : [id]
  })
}

/** Snapshots that are missing although a licence or a purchase refers to them, and snapshots without a reference. */
export async function findWrongSnapshots({ sql }: Pick<Harness, 'sql'>) {
  const rows = await sql<{ id: string; missing: boolean }[]>`
    with used as (
      select snapshot_id as id from licences
      union select snapshot_id from purchases
      union select bought_snapshot_id from purchases
      union select snapshot_id from purchase_effects where snapshot_id is not null
    )
    select coalesce(used.id, s.id) as id, s.id is null as missing
    from used full join snapshots s on s.id = used.id where used.id is null or s.id is null`
  const idsOf = (missing: boolean) => rows.filter((row) => row.missing === missing).map(({ id }) => id)
  return { missing: idsOf(true), unused: idsOf(false) }
}

export async function statusOf(harness: Harness, licence: { id: string }): Promise<string> {
  return (await licenceOf(harness, licence)).status
}

/** Transactions that PostgreSQL had to undo because locks were acquired in different orders. */
export async function deadlocks({ sql }: Harness): Promise<number> {
  const [row] = await sql<{ deadlocks: number }[]>`
    select deadlocks::int from pg_stat_database where datname = current_database()`
  return row!.deadlocks
}

/** The error with which a call is refused. */
export async function refusal(call: Promise<unknown>): Promise<ServiceError> {
  const outcome = await call.then(
    () => undefined,
    (error: unknown) => error,
  )
  if (outcome instanceof ServiceError) return outcome
  throw new Error('the call was not refused', { cause: outcome })
}

/** Makes that many calls at once. */
export const atOnce = <T>(count: number, call: (at: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, at) => call(at)))

/** Makes that many calls at once, of which some may be refused. */
export const settledAtOnce = <T>(
  count: number,
  call: (at: number) => Promise<T>,
): Promise<PromiseSettledResult<T>[]> =>
  Promise.allSettled(Array.from({ length: count }, (_, at) => call(at)))

/** How often a race is run. */
export const raceRounds = Number(process.env['RACE_ROUNDS'] ?? (isFull ? 20 : 4))
