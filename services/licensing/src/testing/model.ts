import type { SentEvent } from './makers.ts'
import type { Call } from './model-calls.ts'
import { resultOf } from './written-rules.ts'
import type { Cause, Position } from './written-rules.ts'

// The written rules carried out in plain TypeScript and without a database, to compare the service with. It shares no
// code with the service on purpose.

export interface ModelPurchase {
  plan: string
  /** Days from now; undefined: it never ends. */
  endsIn: number | undefined
  fell?: 'given back' | 'cancelled'
}

export interface ModelLicence extends Position {
  name: string
  customer: string
  /** In their order. */
  purchases: ModelPurchase[]
  restsOn: ModelPurchase
}

type Consequence = Extract<Call, { call: 'consequence' }>['name']
type Event = Omit<SentEvent, 'previous'>
export type Outcome = { refused: string } | { licence: ModelLicence; events?: Event[] }

const stands = ({ endsIn, fell }: ModelPurchase) => fell === undefined && (endsIn === undefined || endsIn > 0)
const planOf = ({ restsOn }: ModelLicence) => restsOn.plan

export class Model {
  readonly plans = new Map<string, 'active' | 'retired'>()
  readonly licences: ModelLicence[] = []
  readonly #keys = new Map<string, { body: string; licence: ModelLicence }>()
  readonly #legacy = new Map<string, ModelLicence>()
  readonly #payments = new Map<string, ModelLicence>()
  readonly #causes = new Set<string>()

  activeOn(plan: string): number {
    return this.licences.filter((licence) => planOf(licence) === plan && licence.status === 'active').length
  }

  issue(key: string, body: string, plan: string): Outcome {
    const before = this.#keys.get(key)
    if (before)
      return before.body === body ? { licence: before.licence } : { refused: 'idempotency_mismatch' }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const licence = this.#mint({ plan, endsIn: undefined }, `customer of ${key}`)
    this.#keys.set(key, { body, licence })
    return { licence }
  }

  import(legacyKey: string, plan: string): Outcome {
    const existing = this.#legacy.get(legacyKey)
    if (existing) return { licence: existing }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const licence = this.#mint({ plan, endsIn: undefined }, `customer of ${legacyKey}`)
    this.#legacy.set(legacyKey, licence)
    return { licence }
  }

  verb(verb: Cause, licence: ModelLicence): Outcome {
    return this.#bring(verb, licence)
  }

  /** The vendor moves the end, ahead of now. */
  update(licence: ModelLicence, endsIn: number | undefined): Outcome {
    const purchase = licence.restsOn
    const stays = purchase.endsIn === endsIn && licence.status !== 'expired'
    if (stays) return { licence }
    const { sweptFrom } = licence
    const outcome = this.#bring('an end moved ahead', licence)
    if ('refused' in outcome) return outcome
    purchase.endsIn = endsIn
    if (sweptFrom) licence.sweptFrom = undefined
    if (purchase.fell === 'cancelled') delete purchase.fell
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

  /** @returns what it did, licence by licence */
  sweep(): { licence: ModelLicence; events: Event[] }[] {
    const past = this.licences.filter(({ restsOn: { endsIn } }) => endsIn !== undefined && endsIn <= 0)
    return past.flatMap((licence) => {
      const outcome = licence.purchases.some(stands) ? this.#rest(licence) : this.#expire('sweep', licence)
      return 'events' in outcome && outcome.events ? [{ licence, events: outcome.events }] : []
    })
  }

  pay(payment: string, customer: string, plan: string, endsIn: number | undefined): Outcome {
    const before = this.#payments.get(payment)
    if (before) return { licence: before }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const held = this.licences.findLast(
      (licence) => licence.customer === customer && !['revoked', 'retired'].includes(licence.status),
    )
    const purchase = { plan, endsIn }
    const licence = held ?? this.#mint(purchase, customer)
    this.#payments.set(payment, licence)
    if (!held) return { licence, events: [eventOf('licence.created', licence)] }
    licence.purchases.push(purchase)
    if (stands(purchase)) {
      licence.restsOn = purchase
      return this.#bring('a payment', licence)
    }
    // It has ended before it landed: for a while the licence rested on it.
    const earlier = licence.purchases.findLast(stands)
    const keepsInquiry =
      licence.reason === 'dispute_inquiry' &&
      licence.restsOn === earlier &&
      this.plans.get(earlier.plan) === 'retired'
    licence.restsOn = earlier ?? purchase
    if (!keepsInquiry && (earlier || licence.status !== 'expired')) this.#clear(licence)
    return { licence, events: [eventOf('licence.plan_changed', licence)] }
  }

  renew(licence: ModelLicence, cause: string, endsIn: number): Outcome {
    if (!this.#first(licence, 'renew', cause)) return { licence }
    // Nothing of it is to be seen on a licence that is over.
    if (licence.status === 'revoked' || licence.status === 'retired') return { licence }
    const purchase = licence.restsOn
    const before = purchase.endsIn
    if (purchase.fell) return { licence }
    if (before !== undefined) purchase.endsIn = Math.max(before, endsIn)
    const earlier = licence.purchases.findLast(stands)
    if (earlier && earlier !== purchase) return this.#rest(licence)
    if (!stands(purchase)) {
      return purchase.endsIn === before
        ? { licence }
        : this.#bring('a renewal of a period that is over', licence)
    }
    return this.#bring(purchase.endsIn === before ? 'a renewal that moves no end' : 'a renewal', licence)
  }

  consequence(name: Consequence, licence: ModelLicence, cause: string): Outcome {
    if (!this.#first(licence, name, cause)) return { licence }
    const purchase = licence.restsOn
    const { fell } = purchase
    if (name === 'a full refund' || name === 'a cancelled subscription') {
      for (const one of licence.purchases) one.fell ??= 'cancelled'
    }
    if (name === 'a full refund') purchase.fell = 'given back'
    const rests = licence.purchases.findLast(stands)
    if (rests && rests !== purchase) return this.#rest(licence)
    // A purchase is cancelled once.
    if (name === 'a cancelled subscription') return fell ? { licence } : this.#expire(name, licence)
    const needsStanding = name === 'failed payments' || name === 'an inquiry'
    return needsStanding && !rests ? { licence } : this.#bring(name, licence)
  }

  /** The licence comes to rest on its latest purchase that stands. */
  #rest(licence: ModelLicence): Outcome {
    const before = planOf(licence)
    licence.restsOn = licence.purchases.findLast(stands)!
    if (['revoked', 'retired'].includes(licence.status)) return { licence }
    const { status } = licence
    const became = this.#clear(licence)
    const changed = before !== planOf(licence)
    const events = [
      ...(changed ? [eventOf('licence.plan_changed', licence)] : []),
      ...(became === 'active' && !changed ? [eventOf('licence.reactivated', licence)] : []),
      ...(became === 'suspended' && status !== 'suspended' ? [eventOf('licence.suspended', licence)] : []),
    ]
    return { licence, events }
  }

  /** What former purchases had called for is over. */
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

  #first(licence: ModelLicence, effect: string, cause: string): boolean {
    const known = `${licence.name} ${effect} ${cause}`
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

  #bring(cause: Cause, licence: ModelLicence): Outcome {
    const result = resultOf(cause, licence, this.plans.get(planOf(licence))!)
    if ('refused' in result) return result
    if (!('to' in result)) return { licence }
    const stays = licence.status === result.to && licence.reason === result.reason
    Object.assign(licence, { status: result.to, reason: result.reason })
    if (!stays) licence.sweptFrom = undefined
    return { licence, ...(result.event !== undefined && { events: [eventOf(result.event, licence)] }) }
  }
}

function eventOf(type: string, licence: ModelLicence): Event {
  const { name, status, reason } = licence
  const plan = planOf(licence)
  const ofPayments = type === 'licence.created' || type === 'licence.plan_changed'
  const more = type === 'licence.suspended' ? { reason } : {}
  return { type, object: { licence_id: name, ...(ofPayments && { plan_id: plan }), status, ...more } }
}
