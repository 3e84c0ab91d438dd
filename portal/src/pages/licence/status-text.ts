import type { HistoryEntry, LicenceDetail } from '../../api/licences.ts'
import { day } from '../../parts/text.tsx'

type LicenceFacts = Pick<LicenceDetail, 'status' | 'status_reason' | 'expires_on' | 'trial' | 'allowed'>

interface Facts {
  licence: LicenceFacts
  /** The entry that set the licence's status; null if it is not known. */
  entry: HistoryEntry | null
  /** The actor of the entry, as part of a sentence. */
  who: string
}

/** A text that support staff can read out: the state of a licence, since when, why, and what to do. */
export function statusText(facts: Facts): string {
  const { licence, entry } = facts
  const state = licence.trial ? `${capital(licence.status)} trial` : capital(licence.status)
  // The entry may have been read before the last change; then it describes another state.
  if (entry?.to !== licence.status) return `${state}. ${nextOf(licence)}`
  return `${state} since ${day(entry.at)}${reasonOf(facts, entry)}. ${nextOf(licence)}`
}

function reasonOf({ licence, who }: Facts, { type, actor }: HistoryEntry): string {
  const isByProcessor = actor === 'processor'
  switch (licence.status) {
    case 'active':
      return activeBecause(type, who, isByProcessor)
    case 'suspended':
      return suspendedBecause(licence, who)
    case 'expired':
      if (isByProcessor) return ' because its subscription ended'
      return licence.trial ? ' because the time of the trial is over' : ' because its end passed'
    case 'downgraded':
      return ' because a part of its payment was refunded'
    case 'revoked':
      return isByProcessor
        ? ' because its payment was refunded or charged back'
        : ` because ${who} revoked it`
    case 'retired':
      return ` because ${who} retired it`
  }
}

function activeBecause(type: HistoryEntry['type'], who: string, isByProcessor: boolean): string {
  switch (type) {
    case 'issued':
      return `, when ${who} issued it`
    case 'imported':
      return `, when ${who} imported it`
    case 'created':
      return ', when the customer paid for it'
    case 'trial_started':
      return ', when a product started it as a trial'
    case 'renewed':
    case 'plan_changed':
      return ', when the customer paid'
    case 'reactivated':
      return isByProcessor ? ', when its payment problem was solved' : `, when ${who} reactivated it`
    default:
      return ''
  }
}

function suspendedBecause({ status_reason: reason }: LicenceFacts, who: string): string {
  switch (reason) {
    case 'payment_failed':
      return ' because payments for its subscription failed'
    case 'dispute_inquiry':
      return ' because the customer’s bank asks about a payment'
    case 'plan_archived':
      return ' because its plan was archived'
    case 'manual':
    case null:
      return ` because ${who} suspended it`
  }
}

function nextOf(licence: LicenceFacts): string {
  const end = licence.expires_on === null ? null : day(licence.expires_on)
  switch (licence.status) {
    case 'active':
      if (licence.trial) return `It ends on ${end}. When the customer buys, change its customer reference.`
      return end === null
        ? 'It never expires: there is nothing to do.'
        : `It expires on ${end} unless it is renewed or extended.`
    case 'suspended':
      return afterSuspension(licence)
    case 'expired':
      return licence.trial
        ? 'When the customer buys, change its customer reference and extend it.'
        : 'It becomes active when the customer pays, or when it is extended.'
    case 'downgraded':
      return 'Products have the default values until the customer pays again.'
    case 'revoked':
      return 'That is permanent: if the customer is to have a licence, issue another one.'
    case 'retired':
      return 'It is permanently out of use: if the customer is to have a licence, issue another one.'
  }
}

function afterSuspension({ status_reason: reason, allowed }: LicenceFacts): string {
  const canReactivate = allowed.includes('reactivate')
  switch (reason) {
    case 'payment_failed':
      return 'It becomes active when the customer pays.'
    case 'dispute_inquiry':
      return 'It becomes active when the inquiry is closed: answer it at the payment processor.'
    case 'plan_archived':
    case 'manual':
    case null:
      return canReactivate
        ? 'It becomes active when somebody reactivates it.'
        : 'Restore its plan, then reactivate it.'
  }
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
