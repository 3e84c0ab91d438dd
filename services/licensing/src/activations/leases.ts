import type { Change } from '@licensing/changes/change'
import { createBatcher } from '@licensing/changes/batcher'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { lockLicenceOfId } from './activation-queries.ts'
import type { ActivatedLicence, ProductLicence } from './activation-queries.ts'
import { countLeases, lockExisting, writeLeases } from './lease-queries.ts'

/**
 * Gives a lease to an activation that holds none. Requests for one licence share a transaction.
 *
 * @returns false if no lease is free
 */
export function createTakeLease(change: Change): (activation: ActivatedLicence) => Promise<boolean> {
  return createBatcher<ActivatedLicence, boolean>(
    (activations) => change((tx) => takeLeases(tx, activations)),
    {
      maxBatchSize: 100,
      isTransient: isDatabaseUnavailable,
      queueOf: ({ id }) => id,
    },
  )
}

/** Gives leases of one licence to activations, in their order. */
async function takeLeases(tx: Transaction, activations: ActivatedLicence[]): Promise<boolean[]> {
  const licence = await lockLicenceOfId(tx, activations[0]!.id)
  // If the licence is no longer floating, an activation needs no lease.
  if (!licence || licence.max_concurrent === null) return activations.map(() => true)
  const ids = [...new Set(activations.map(({ activation_id }) => activation_id))]
  const existing = await lockExisting(tx, ids)
  const { counted, holders } = await countLeases(tx, licence.id, ids)
  const needing = ids.filter((id) => existing.has(id) && !holders.has(id))
  const free = Math.max(0, licence.max_concurrent - counted)
  const taking = needing.slice(0, free)
  if (taking.length > 0) {
    const leases = taking.map((activationId) => ({ activationId, isNew: true, offlineUntil: null }))
    await writeLeases(tx, licence, leases)
  }
  const refused = new Set(needing.slice(free))
  return activations.map(({ activation_id }) => !refused.has(activation_id))
}

/** Why no lease is free. */
export function whyNoLease({ max_concurrent: max }: ProductLicence): string {
  return (
    `the licence is in use on as many installations at a time as it allows (${max}): ` +
    'release one of them first, or wait until the lease of one ends'
  )
}
