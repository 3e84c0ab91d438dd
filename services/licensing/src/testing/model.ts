import type { SentEvent } from './makers.ts'
import { resultOf } from './written-rules.ts'
import type { Cause, Position } from './written-rules.ts'

// The written rules carried out in plain TypeScript and without a database, to compare the service with. It shares no
// code with the service on purpose.

export interface ModelLicence extends Position {
  name: string
  plan: string
  customer: string
  /** Days from now; undefined: it never expires. */
  expiresIn: number | undefined
}

export type Outcome = { refused: string } | { licence: ModelLicence; event?: Omit<SentEvent, 'previous'> }

export class Model {
  readonly plans = new Map<string, 'active' | 'retired'>()
  readonly licences: ModelLicence[] = []
  readonly #keys = new Map<string, { body: string; licence: ModelLicence }>()
  readonly #legacy = new Map<string, ModelLicence>()
  readonly #payments = new Map<string, ModelLicence>()
  readonly #causes = new Set<string>()

  activeOn(plan: string): number {
    return this.licences.filter((licence) => licence.plan === plan && licence.status === 'active').length
  }

  issue(key: string, body: string, plan: string): Outcome {
    const before = this.#keys.get(key)
    if (before)
      return before.body === body ? { licence: before.licence } : { refused: 'idempotency_mismatch' }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const licence = this.#mint(plan, `customer of ${key}`, undefined)
    this.#keys.set(key, { body, licence })
    return { licence }
  }

  import(legacyKey: string, plan: string): Outcome {
    const existing = this.#legacy.get(legacyKey)
    if (existing) return { licence: existing }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const licence = this.#mint(plan, `customer of ${legacyKey}`, undefined)
    this.#legacy.set(legacyKey, licence)
    return { licence }
  }

  verb(verb: Cause, licence: ModelLicence): Outcome {
    return this.#bring(verb, licence)
  }

  /** @returns the licences that it suspended */
  archive(plan: string): ModelLicence[] {
    const on = this.licences.filter((licence) => licence.plan === plan)
    const suspended = on.filter((licence) => 'event' in this.#bring('archive', licence))
    this.plans.set(plan, 'retired')
    return suspended
  }

  restore(plan: string): void {
    this.plans.set(plan, 'active')
  }

  /** @returns the licences that it expired */
  sweep(): ModelLicence[] {
    const past = this.licences.filter(({ expiresIn }) => expiresIn !== undefined && expiresIn <= 0)
    return past.filter((licence) => {
      const { status, reason } = licence
      const expired = 'event' in this.#bring('sweep', licence)
      if (expired) licence.sweptFrom = { status, reason }
      return expired
    })
  }

  pay(payment: string, customer: string, plan: string, expiresIn: number | undefined): Outcome {
    const before = this.#payments.get(payment)
    if (before) return { licence: before }
    const planIs = this.plans.get(plan)!
    if (planIs === 'retired') return { refused: 'plan_archived' }
    const held = this.licences.findLast(
      (licence) => licence.customer === customer && 'to' in resultOf('a payment', licence, planIs),
    )
    const licence = held ?? this.#mint(plan, customer, expiresIn)
    this.#payments.set(payment, licence)
    if (!held) return { licence, event: eventOf('licence.created', licence) }
    Object.assign(held, { plan, expiresIn })
    return this.#bring('a payment', held)
  }

  renew(licence: ModelLicence, cause: string, expiresIn: number): Outcome {
    if (!this.#first(licence, 'renew', cause)) return { licence }
    const before = licence.expiresIn
    const after = before === undefined ? undefined : Math.max(before, expiresIn)
    const ahead = after === undefined || after > 0
    const name = ahead ? 'a renewal' : 'a renewal of a period that is over'
    if (!('to' in resultOf(name, licence, this.plans.get(licence.plan)!))) return { licence }
    licence.expiresIn = after
    return this.#bring(name, licence)
  }

  consequence(name: Cause, licence: ModelLicence, cause: string): Outcome {
    if (!this.#first(licence, name, cause)) return { licence }
    if (name === 'a cancelled subscription') licence.sweptFrom = undefined
    return this.#bring(name, licence)
  }

  #first(licence: ModelLicence, effect: string, cause: string): boolean {
    const known = `${licence.name} ${effect} ${cause}`
    if (this.#causes.has(known)) return false
    this.#causes.add(known)
    return true
  }

  #mint(plan: string, customer: string, expiresIn: number | undefined): ModelLicence {
    const name = `licence ${this.licences.length}`
    const licence: ModelLicence = {
      name,
      plan,
      customer,
      status: 'active',
      reason: undefined,
      expiresIn,
      sweptFrom: undefined,
    }
    this.licences.push(licence)
    return licence
  }

  #bring(cause: Cause, licence: ModelLicence): Outcome {
    const result = resultOf(cause, licence, this.plans.get(licence.plan)!)
    if ('refused' in result) return result
    if (!('to' in result)) return { licence }
    const stays = licence.status === result.to && licence.reason === result.reason
    Object.assign(licence, { status: result.to, reason: result.reason })
    if (!stays) licence.sweptFrom = undefined
    return { licence, ...(result.event !== undefined && { event: eventOf(result.event, licence) }) }
  }
}

function eventOf(type: string, { name, plan, status, reason }: ModelLicence): Omit<SentEvent, 'previous'> {
  const ofPayments = type === 'licence.created' || type === 'licence.plan_changed'
  const more = type === 'licence.suspended' ? { reason } : {}
  return { type, object: { licence_id: name, ...(ofPayments && { plan_id: plan }), status, ...more } }
}
