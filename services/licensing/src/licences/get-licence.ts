import type { MessageInitShape } from '@bufbuild/protobuf'
import { createBatcher } from '@licensing/changes/batcher'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { messageOf } from '@licensing/grpc/fields'
import { ActivationSchema, CallHomeSchema } from '@licensing/proto/licensing'
import type { GetLicenceRequest, LicenceDetailSchema, PlanDriftSchema } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { findDetails } from './detail-queries.ts'
import type { DetailRow } from './detail-queries.ts'
import type { LicenceScope } from '../lifecycle/licence-queries.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import { allowedVerbs } from '../lifecycle/licence.ts'
import { licenceNotFound } from '../lifecycle/refusals.ts'
import { overrideMessage } from '../overrides/override.ts'
import { effectiveEntitlements } from '../plans/effective.ts'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'

type LicenceDetail = MessageInitShape<typeof LicenceDetailSchema>

const maxBatchSize = 100
const slots = 2

/** The handler of GetLicence. Requests that arrive together share one statement. */
export function createGetLicence({
  sql,
  snapshots,
}: LicensingDependencies): (request: GetLicenceRequest) => Promise<LicenceDetail> {
  const read = createBatcher<LicenceScope, DetailRow | undefined>((batch) => findDetails(sql, batch), {
    maxBatchSize,
    slots,
    isTransient: isDatabaseUnavailable,
  })
  const planDriftOf = async (row: DetailRow) => {
    if (row.snapshot_id === row.plan_snapshot_id) return []
    const plan = { id: row.plan_id, snapshot_id: row.plan_snapshot_id }
    return planDrift(await snapshots.entitlementsOf(row), await snapshots.entitlementsOfPlan(plan))
  }
  return async (request) => {
    const row = await read(request)
    if (!row) throw licenceNotFound(request)
    const entitlements = await snapshots.entitlementsOf(row)
    return {
      licence: licenceMessage(row),
      entitlements: entitlements.map(({ key, kind, value }) => ({ key, kind, value })),
      activations: row.activations.map((activation) => messageOf(ActivationSchema, activation)),
      callHome: row.call_home.map((call) => messageOf(CallHomeSchema, call)),
      ...(row.legacy_key !== null && { legacyKey: row.legacy_key }),
      activationsTotal: row.activations_total,
      allowed: allowedVerbs(row.status, row.plan_status),
      planDrift: await planDriftOf(row),
      overrides: row.overrides.map(overrideMessage),
      effective: effectiveEntitlements(
        row.status,
        entitlements,
        row.overrides.filter((override) => !override.has_ended),
      ),
      leasesInUse: row.leases_in_use,
    }
  }
}

/** The entitlements whose value differs between a licence and its plan, sorted by key. */
export function planDrift(
  captured: readonly SnapshotEntitlement[],
  granted: readonly SnapshotEntitlement[],
): MessageInitShape<typeof PlanDriftSchema>[] {
  const ofLicence = new Map(captured.map((entitlement) => [entitlement.key, entitlement]))
  const ofPlan = new Map(granted.map((entitlement) => [entitlement.key, entitlement]))
  return [...new Set([...ofLicence.keys(), ...ofPlan.keys()])].sort().flatMap((key) => {
    const [licence, plan] = [ofLicence.get(key), ofPlan.get(key)]
    if (licence?.value === plan?.value) return []
    return {
      key,
      kind: (licence ?? plan)!.kind,
      ...(licence && { licenceValue: licence.value }),
      ...(plan && { planValue: plan.value }),
    }
  })
}
