import type { MessageInitShape } from '@bufbuild/protobuf'
import type { PlanDriftSchema } from '@licensing/proto/licensing'
import type { SnapshotEntitlement } from '../plans/snapshot.ts'

/** The entitlements whose value a licence would get differently from its plan now, sorted by key. */
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
