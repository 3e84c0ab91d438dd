import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { databaseTime } from '@licensing/database/time-queries'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { problemOfValue } from '@licensing/proto/entitlement-kinds'
import type { DeleteOverrideRequest, SetOverrideRequest } from '@licensing/proto/licensing'
import { quotas } from '@licensing/proto/quotas'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { Handler } from '../dependencies.ts'
import { statuses } from '../lifecycle/licence.ts'
import { lockLicence } from '../lifecycle/licence-queries.ts'
import type { LicenceScope, LicenceWithSnapshot } from '../lifecycle/licence-queries.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { conflictOf, licenceNotFound } from '../lifecycle/refusals.ts'
import { deleteOverrideRow, findOverrides, upsertOverride } from '../overrides/override-queries.ts'
import type { LicenceOverride } from '../overrides/override-queries.ts'
import { hasEnded, overrideMessage, settingsOf } from '../overrides/override.ts'
import { recordChanges } from '../overrides/record-changes.ts'
import { recordEnds } from '../overrides/record-ends.ts'
import { effectiveEntitlements } from '../plans/effective.ts'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'
import { findEntitlements, findPlanEntitlements } from '../plans/snapshot-queries.ts'

/** Gives one licence another value than its snapshot has, or changes that value (docs/guides/licences.md, "Other values for one customer"). */
export const setOverride: Handler<'setOverride'> = async ({ change }, request) => {
  return overrideMessage(await change((tx) => setIn(tx, request)))
}

async function setIn(tx: Transaction, request: SetOverrideRequest): Promise<LicenceOverride> {
  const found = await findOverridden(tx, request)
  const { licence, captured, now, former } = found
  const kind = await kindOf(tx, licence, captured, request.key)
  if (!kind) {
    const missing = `the application has no entitlement ${request.key}: create its definition first`
    throw new ServiceError('not_found', missing)
  }
  const settings = checkSettings(request, kind, now)
  requireChangeable(licence)
  if (!former) checkNumber(found.overrides.length)
  const override: LicenceOverride = {
    licence_id: licence.id,
    key: request.key,
    kind,
    ...settings,
    created_at: former?.created_at ?? now,
  }
  if (sameText(settingsOf(former), settingsOf(override))) return override
  await upsertOverride(tx, override)
  await recordOverride(tx, found, override, request.actor)
  return override
}

/** Ends an override, or removes one that has ended from the licence's list. */
export const deleteOverride: Handler<'deleteOverride'> = async ({ change }, request) => {
  await change((tx) => deleteIn(tx, request))
  return {}
}

async function deleteIn(tx: Transaction, request: DeleteOverrideRequest): Promise<void> {
  const found = await findOverridden(tx, request)
  const { licence, former } = found
  if (!former) {
    throw new ServiceError('not_found', `licence ${licence.id} has no override of ${request.key}`)
  }
  requireChangeable(licence)
  await deleteOverrideRow(tx, licence.id, request.key)
  await recordOverride(tx, found, undefined, request.actor)
}

interface Overridden {
  licence: LicenceWithSnapshot
  captured: SnapshotEntitlement[]
  overrides: LicenceOverride[]
  /** The override of the requested key. */
  former: LicenceOverride | undefined
  /** The time by the database's clock. */
  now: Date
}

/** Locks the licence and reads the entitlements of its products. */
async function findOverridden(tx: Transaction, request: LicenceScope & { key: string }): Promise<Overridden> {
  const licence = await lockLicence(tx, request)
  if (!licence) throw licenceNotFound(request)
  const now = await databaseTime(tx)
  await recordEnds(tx, [licence], now)
  const overrides = await findOverrides(tx, [licence.id])
  const former = overrides.find(({ key }) => key === request.key)
  return { licence, captured: await findEntitlements(tx, licence.snapshot_id), overrides, former, now }
}

/** The kind of an entitlement, from the snapshot or from the definitions of the application, all of which each plan has. */
async function kindOf(
  tx: Transaction,
  licence: LicenceWithSnapshot,
  captured: SnapshotEntitlement[],
  key: string,
): Promise<EntitlementKind | undefined> {
  const own = captured.find((entitlement) => entitlement.key === key)
  if (own) return own.kind
  const { entitlements } = await findPlanEntitlements(tx, licence.plan_id)
  return entitlements.find((entitlement) => entitlement.key === key)?.kind
}

function checkSettings(request: SetOverrideRequest, kind: EntitlementKind, now: Date) {
  const { value, endsOn, note } = request
  const problem = problemOfValue(kind, value)
  if (problem) throw invalid('/value', problem)
  const end = endsOn ? timestampDate(endsOn) : null
  if (end && end <= now) throw invalid('/ends_on', 'must be in the future')
  const problemOfNote = note === undefined ? undefined : problemOfText(note, textLimits.note)
  if (problemOfNote) throw invalid('/note', problemOfNote)
  return { value, ends_on: end, note: note ?? null }
}

// The maximum number of definitions of an application. Overrides of deleted definitions stay and are counted.
const maxOverrides = quotas.entitlement_defs.ceiling

function checkNumber(existing: number): void {
  if (existing < maxOverrides) return
  const detail = `a licence may have ${maxOverrides} overrides: delete one that is not used any more`
  throw new ServiceError('quota_exceeded', detail, { members: { limit: maxOverrides } })
}

function requireChangeable(licence: LicenceRow): void {
  if (!statuses[licence.status].isOver) return
  throw conflictOf(licence, 'active', 'overrides of a revoked or retired licence cannot be changed')
}

async function recordOverride(
  tx: Transaction,
  { licence, captured, overrides, former, now }: Overridden,
  override: LicenceOverride | undefined,
  actor: string,
): Promise<void> {
  const current = overrides.filter((one) => !hasEnded(one, now))
  const others = current.filter((one) => one !== former)
  const change = {
    licence,
    before: effectiveEntitlements(licence.status, captured, current),
    after: effectiveEntitlements(licence.status, captured, override ? [...others, override] : others),
    changes: {
      [`overrides.${(override ?? former)!.key}`]: { from: settingsOf(former), to: settingsOf(override) },
    },
    actor,
  }
  await recordChanges(tx, [change], now)
}

const sameText = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)
