import type { SentEvent } from './makers.ts'
import type { Call } from './model-calls.ts'
import { resultOf } from '@licensing/test-support/licence-rules'
import type { Cause, Position } from '@licensing/test-support/licence-rules'

// A model of the service in plain TypeScript without a database. It deliberately shares no code with the service.

export interface ModelPurchase {
  /** Undefined for the purchase with which a licence was issued or imported. */
  ref?: string
  plan: string
  /** Days from now; undefined: it never ends. */
  endsIn: number | undefined
  terminated?: 'refunded' | 'canceled'
  wasInquired?: boolean
}

export interface ModelLicence extends Position {
  name: string
  customer: string
  /** The purchases in the order in which they were made. */
  purchases: ModelPurchase[]
  restsOn: ModelPurchase
  /** The purchase whose inquiry suspended it. */
  inquired?: ModelPurchase | undefined
}

/** A paid purchase and its licence. */
export interface Paid {
  licence: ModelLicence
  purchase: ModelPurchase
}

type EffectName = Extract<Call, { call: 'consequence' }>['name']
export type Outcome = { refused: string } | { licence: ModelLicence; events?: SentEvent[] }

export const hasEnded = ({ endsIn }: ModelPurchase) => endsIn !== undefined && endsIn <= 0
const isValid = (purchase: ModelPurchase) => purchase.terminated === undefined && !hasEnded(purchase)
const planOf = ({ restsOn }: ModelLicence) => restsOn.plan
const isOver = ({ status }: Position) => status === 'revoked' || status === 'retired'

export class Model {
  readonly plans = new Map<string, 'active' | 'retired'>()
  readonly licences: ModelLicence[] = []
  readonly #keys = new Map<string, { body: string; licence: ModelLicence }>()
  readonly #legacy = new Map<string, ModelLicence>()
  readonly paid: Paid[] = []
  readonly #causes = new Set<string>()

  activeOn(plan: string): number {
    return this.licences.filter((licence) => planOf(licence) === plan && licence.status === 'active').length
  }

  issue(key: string, body: string, customer: string, plan: string): Outcome {
    const before = this.#keys.get(key)
    if (before)
      return before.body === body ? { licence: before.licence } : { refused: 'idempotency_mismatch' }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const licence = this.#mint({ plan, endsIn: undefined }, customer)
    this.#keys.set(key, { body, licence })
    return { licence }
  }

  import(legacyKey: string, customer: string, plan: string): Outcome {
    const existing = this.#legacy.get(legacyKey)
    if (existing) return { licence: existing }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const licence = this.#mint({ plan, endsIn: undefined }, customer)
    this.#legacy.set(legacyKey, licence)
    return { licence }
  }

  verb(verb: Cause, licence: ModelLicence): Outcome {
    const outcome = this.#bring(verb, licence)
    if (verb === 'reactivate' && !('refused' in outcome)) licence.inquired = undefined
    return outcome
  }

  /** The vendor sets an end in the future. */
  update(licence: ModelLicence, endsIn: number | undefined): Outcome {
    const purchase = licence.restsOn
    const stays = purchase.endsIn === endsIn && licence.status !== 'expired'
    if (stays) return { licence }
    const { sweptFrom } = licence
    const outcome = this.#bring('an end moved ahead', licence)
    if ('refused' in outcome) return outcome
    purchase.endsIn = endsIn
    if (sweptFrom) licence.sweptFrom = undefined
    if (purchase.terminated === 'canceled') delete purchase.terminated
    return outcome
  }

  /** @returns the licences that it suspended */
  archive(plan: string): ModelLicence[] {
    const on = this.licences.filter((licence) => planOf(licence) === plan)
    const suspended = on.filter((licence) => 'events' in this.#bring('archive', licence))
    this.plans.set(plan, 'retired')
    return suspended
  }

  restore(plan: string): void {
    this.plans.set(plan, 'active')
  }

  /** @returns the changed licences with their events */
  sweep(): { licence: ModelLicence; events: SentEvent[] }[] {
    const past = this.licences.filter(({ restsOn }) => hasEnded(restsOn))
    return past.flatMap((licence) => {
      if (isOver(licence)) return []
      const outcome = licence.purchases.some(isValid) ? this.#rest(licence) : this.#expire('sweep', licence)
      return 'events' in outcome && outcome.events ? [{ licence, events: outcome.events }] : []
    })
  }

  pay(ref: string, customer: string, plan: string, endsIn: number | undefined): Outcome {
    const before = this.paid.find(({ purchase }) => purchase.ref === ref)
    if (before) return { licence: before.licence }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const held = this.licences.findLast((licence) => licence.customer === customer && !isOver(licence))
    const purchase = { ref, plan, endsIn }
    const licence = held ?? this.#mint(purchase, customer)
    this.paid.push({ licence, purchase })
    if (!held) return { licence, events: [eventOf('licence.created', licence)] }
    const former = planOf(licence)
    licence.purchases.push(purchase)
    if (isValid(purchase)) {
      licence.restsOn = purchase
      return this.#bring('a payment', licence, former)
    }
    // The purchase ended before it was processed: until then the licence rested on it.
    const earlier = licence.purchases.findLast(isValid)
    licence.restsOn = earlier ?? purchase
    licence.inquired = undefined
    const { status } = licence
    if (earlier || status !== 'expired') this.#clear(licence)
    const events = [eventOf('licence.plan_changed', licence, former)]
    if (licence.status === 'suspended' && status !== 'suspended')
      events.push(eventOf('licence.suspended', licence))
    return { licence, events }
  }

  /** Whether a renewal of this ended purchase may make an earlier inquiry of another purchase count again. */
  mayBringBack({ licence, purchase }: Paid): boolean {
    return hasEnded(purchase) && licence.purchases.some((one) => one !== purchase && one.wasInquired)
  }

  renew({ licence, purchase }: Paid, cause: string, endsIn: number): Outcome {
    if (!this.#first(purchase, 'renew', cause) || isOver(licence) || purchase.terminated) return { licence }
    const before = purchase.endsIn
    if (before !== undefined) purchase.endsIn = Math.max(before, endsIn)
    const latest = licence.purchases.findLast(isValid)
    // A purchase that had ended may be valid again.
    if (latest && latest !== licence.restsOn) return this.#rest(licence)
    if (purchase !== licence.restsOn) return { licence }
    if (!isValid(purchase)) {
      return purchase.endsIn === before
        ? { licence }
        : this.#bring('a renewal of a period that is over', licence)
    }
    return this.#bring(purchase.endsIn === before ? 'a renewal that moves no end' : 'a renewal', licence)
  }

  consequence(name: EffectName, { licence, purchase }: Paid, cause: string): Outcome {
    if (!this.#first(purchase, name, cause) || isOver(licence)) return { licence }
    const { terminated } = purchase
    if (name === 'a cancelled subscription') purchase.terminated ??= 'canceled'
    if (name === 'a full refund' || name === 'a chargeback') purchase.terminated = 'refunded'
    if (name === 'an inquiry') purchase.wasInquired = true
    if (name === 'an inquiry that closes') return this.#closeInquiry(licence, purchase)
    if (purchase !== licence.restsOn) return { licence }
    const rests = licence.purchases.findLast(isValid)
    if (rests && rests !== purchase) return this.#rest(licence)
    // A purchase is cancelled once.
    if (name === 'a cancelled subscription') return terminated ? { licence } : this.#expire(name, licence)
    const needsStanding = name === 'failed payments' || name === 'an inquiry'
    if (needsStanding && !rests) return { licence }
    const known = licence.reason === 'dispute_inquiry' ? licence.inquired : undefined
    const outcome = this.#bring(name, licence)
    if (name === 'an inquiry') licence.inquired = known ?? purchase
    return outcome
  }

  /** Ends a suspension for this purchase's inquiry, whichever purchase the licence rests on now. */
  #closeInquiry(licence: ModelLicence, purchase: ModelPurchase): Outcome {
    if ((licence.inquired ?? licence.restsOn) !== purchase) return { licence }
    licence.inquired = undefined
    return this.#bring('an inquiry that closes', licence)
  }

  /** Lets the licence rest on its latest valid purchase. */
  #rest(licence: ModelLicence): Outcome {
    const before = planOf(licence)
    licence.restsOn = licence.purchases.findLast(isValid)!
    licence.inquired = undefined
    const { status } = licence
    const became = this.#clear(licence)
    const changed = before !== planOf(licence)
    const events = [
      ...(changed ? [eventOf('licence.plan_changed', licence, before)] : []),
      ...(became === 'active' && !changed ? [eventOf('licence.reactivated', licence)] : []),
      ...(became === 'suspended' && status !== 'suspended' ? [eventOf('licence.suspended', licence)] : []),
    ]
    return { licence, events }
  }

  /** Removes statuses that earlier purchases required. */
  #clear(licence: ModelLicence): string | undefined {
    const { status, reason } = licence
    const cleared = status === 'expired' || status === 'downgraded' || status === 'suspended'
    const isRetired = this.plans.get(planOf(licence)) === 'retired'
    if (status === 'active' && !isRetired) return undefined
    if (cleared && (reason === 'manual' || reason === 'plan_archived')) return undefined
    if (status !== 'active' && !cleared) return undefined
    const to = isRetired ? { status: 'suspended', reason: 'plan_archived' } : { status: 'active' }
    Object.assign(licence, { reason: undefined, sweptFrom: undefined }, to)
    return to.status
  }

  #expire(cause: 'sweep' | 'a cancelled subscription', licence: ModelLicence): Outcome {
    const { status, reason } = licence
    const outcome = this.#bring(cause, licence)
    if ('events' in outcome) licence.sweptFrom = { status, reason }
    return outcome
  }

  #first({ ref }: ModelPurchase, effect: string, cause: string): boolean {
    const known = `${ref} ${effect} ${cause}`
    if (this.#causes.has(known)) return false
    this.#causes.add(known)
    return true
  }

  #mint(purchase: ModelPurchase, customer: string): ModelLicence {
    const licence: ModelLicence = {
      name: `licence ${this.licences.length}`,
      customer,
      status: 'active',
      reason: undefined,
      sweptFrom: undefined,
      purchases: [purchase],
      restsOn: purchase,
    }
    this.licences.push(licence)
    return licence
  }

  #bring(cause: Cause, licence: ModelLicence, former?: string): Outcome {
    const result = resultOf(cause, licence, this.plans.get(planOf(licence))!)
    if ('refused' in result) return result
    if (!('to' in result)) return { licence }
    const stays = licence.status === result.to && licence.reason === result.reason
    Object.assign(licence, { status: result.to, reason: result.reason })
    if (!stays) licence.sweptFrom = undefined
    return {
      licence,
      ...(result.event !== undefined && { events: [eventOf(result.event, licence, former)] }),
    }
  }
}

function eventOf(type: string, licence: ModelLicence, former?: string): SentEvent {
  const { name, status, reason } = licence
  const plan = planOf(licence)
  const ofPayments = type === 'licence.created' || type === 'licence.plan_changed'
  const more = type === 'licence.suspended' ? { reason } : {}
  const object = { licence_id: name, ...(ofPayments && { plan_id: plan }), status, ...more }
  return { type, object, previous: former === undefined ? null : { plan_id: former } }
}
