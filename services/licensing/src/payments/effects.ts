import type { LicenceEvent, LicenceStatus } from '../licences/licence.ts'
import type { HistoryType } from '../licences/history-queries.ts'

/** What payments look at in a licence, and change. */
export interface Standing {
  status: LicenceStatus
  reason: string | null
  /** Undefined: for ever. */
  expiresOn: Date | null
  /** What the expiry sweep found; null where it did not expire by the sweep. */
  expiredFrom: LicenceStatus | null
  expiredFromReason: string | null
}

/**
 * A payment lands for a customer who holds this licence (decisions 4): it works again from `expired`, `downgraded`
 * and where payments had failed, and only there.
 */
export function afterPayment(licence: Standing, expiresOn: Date | null): Standing {
  const revived =
    licence.status === 'expired' ||
    licence.status === 'downgraded' ||
    (licence.status === 'suspended' && licence.reason === 'payment_failed')
  return {
    status: revived ? 'active' : licence.status,
    reason: revived ? null : licence.reason,
    expiresOn,
    expiredFrom: null,
    expiredFromReason: null,
  }
}

export interface Renewal {
  licence: Standing
  history: { type: HistoryType; from: LicenceStatus; to: LicenceStatus }[]
  emits?: LicenceEvent
}

/**
 * A later invoice of the same subscription is paid: the expiry moves, never back, since invoices may arrive in any
 * order. It takes an expiry by the sweep back, because an invoice is paid after the period's end; a cancelled
 * subscription stays expired.
 *
 * @returns undefined where it changes nothing
 */
export function afterRenewal(
  licence: Standing,
  expiresOn: Date,
  now: Date,
  planIsActive: boolean,
): Renewal | undefined {
  if (licence.status === 'revoked' || licence.status === 'retired') return undefined
  const later = licence.expiresOn === null || licence.expiresOn > expiresOn ? licence.expiresOn : expiresOn
  const moved = { ...licence, expiresOn: later }
  const unswept = later === null || later > now ? withoutExpiry(moved) : moved
  const history: Renewal['history'] = []
  if (unswept.status !== licence.status || later?.getTime() !== licence.expiresOn?.getTime()) {
    history.push({ type: 'renewed', from: licence.status, to: unswept.status })
  }
  const resumed = resume(unswept, planIsActive)
  if (!resumed) return history.length > 0 ? { licence: unswept, history } : undefined
  const { licence: after, type, emits } = resumed
  return {
    licence: after,
    history: [...history, { type, from: unswept.status, to: after.status }],
    ...(emits && { emits }),
  }
}

function withoutExpiry(licence: Standing): Standing {
  if (licence.status !== 'expired' || licence.expiredFrom === null) return licence
  return {
    ...licence,
    status: licence.expiredFrom,
    reason: licence.expiredFromReason,
    expiredFrom: null,
    expiredFromReason: null,
  }
}

/** Failed payments are made good, which counts for nothing on a retired plan: no licence is active there. */
function resume(
  licence: Standing,
  planIsActive: boolean,
): { licence: Standing; type: HistoryType; emits?: LicenceEvent } | undefined {
  const failed = licence.status === 'suspended' && licence.reason === 'payment_failed'
  if (failed && planIsActive) {
    return {
      licence: { ...licence, status: 'active', reason: null },
      type: 'reactivated',
      emits: 'licenceReactivated',
    }
  }
  if (failed) return { licence: { ...licence, reason: 'plan_archived' }, type: 'suspended' }
  if (licence.status === 'active' && !planIsActive) {
    return {
      licence: { ...licence, status: 'suspended', reason: 'plan_archived' },
      type: 'suspended',
      emits: 'licenceSuspended',
    }
  }
  return undefined
}
