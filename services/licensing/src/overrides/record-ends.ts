import type { Transaction } from '@licensing/database/connect'
import type { LicenceWithSnapshot } from '../lifecycle/licence-queries.ts'
import { effectiveEntitlements } from '../plans/effective.ts'
import { findAllEntitlements } from '../plans/snapshot-queries.ts'
import { findOverrides, markEnds } from './override-queries.ts'
import { hasEnded, settingsOf } from './override.ts'
import { recordChanges } from './record-changes.ts'

/**
 * Records that overrides have ended, each once, with its event. The sweep does it for all licences; a call that changes
 * the entitlements of a licence does it first, so that the history and the events are in order.
 *
 * @param licences that the transaction has locked
 */
export async function recordEnds(tx: Transaction, licences: LicenceWithSnapshot[], now: Date): Promise<void> {
  const ended = await markEnds(
    tx,
    licences.map(({ id }) => id),
    now,
  )
  if (ended.length === 0) return
  const changed = licences.filter(({ id }) => ended.some((override) => override.licence_id === id))
  const overrides = await findOverrides(
    tx,
    changed.map(({ id }) => id),
  )
  const snapshots = await findAllEntitlements(
    tx,
    changed.map((licence) => licence.snapshot_id),
  )
  const made = changed.map((licence) => {
    const captured = snapshots.get(licence.snapshot_id)!
    const own = ended.filter((override) => override.licence_id === licence.id)
    const left = overrides.filter((one) => one.licence_id === licence.id && !hasEnded(one, now))
    return {
      licence,
      before: effectiveEntitlements(licence.status, captured, [...left, ...own]),
      after: effectiveEntitlements(licence.status, captured, left),
      changes: Object.fromEntries(
        own.map((one) => [`overrides.${one.key}`, { from: settingsOf(one), to: null }]),
      ),
      actor: 'sweep',
    }
  })
  await recordChanges(tx, made, now)
}
