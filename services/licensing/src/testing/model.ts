import type { SentEvent } from './makers.ts'

// A second telling of interface 3 and decisions 4 and 7, in plain TypeScript and without a database, to compare the
// service with. It shares no code with it on purpose.

export interface ModelLicence {
  name: string
  plan: string
  customer: string
  status: string
  reason: string | undefined
  /** Days from now; undefined: for ever. */
  expiresIn: number | undefined
  /** What the sweep found it to be. */
  sweptFrom: { status: string; reason: string | undefined } | undefined
}

export type Outcome = { refused: string } | { licence: ModelLicence; event?: Omit<SentEvent, 'previous'> }

const working = ['active', 'suspended', 'downgraded']

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

  verb(verb: string, licence: ModelLicence): Outcome {
    const { status } = licence
    if (verb === 'suspend' && status === 'active') return this.#suspend(licence, 'manual')
    if (verb === 'reactivate' && status === 'suspended') {
      if (this.plans.get(licence.plan) === 'retired') return { refused: 'plan_archived' }
      return this.#move(licence, 'active', 'licence.reactivated')
    }
    if (verb === 'revoke' && status === 'revoked') return { licence }
    if (verb === 'revoke' && status !== 'retired') return this.#move(licence, 'revoked', 'licence.revoked')
    if (verb === 'retire' && status === 'retired') return { licence }
    if (verb === 'retire') return this.#move(licence, 'retired', 'licence.retired')
    return { refused: 'conflict' }
  }

  /** @returns the licences that it suspended */
  archive(plan: string): ModelLicence[] {
    this.plans.set(plan, 'retired')
    const active = this.licences.filter((licence) => licence.plan === plan && licence.status === 'active')
    for (const licence of active) this.#suspend(licence, 'plan_archived')
    return active
  }

  restore(plan: string): void {
    this.plans.set(plan, 'active')
  }

  /** @returns the licences that it expired */
  sweep(): ModelLicence[] {
    const past = this.licences.filter(
      ({ status, expiresIn }) => working.includes(status) && expiresIn !== undefined && expiresIn <= 0,
    )
    for (const licence of past) {
      const { status, reason } = licence
      this.#move(licence, 'expired', 'licence.expired')
      licence.sweptFrom = { status, reason }
    }
    return past
  }

  pay(payment: string, customer: string, plan: string, expiresIn: number | undefined): Outcome {
    const before = this.#payments.get(payment)
    if (before) return { licence: before }
    if (this.plans.get(plan) === 'retired') return { refused: 'plan_archived' }
    const held = this.licences.findLast(
      (licence) => licence.customer === customer && !['revoked', 'retired'].includes(licence.status),
    )
    const licence = held ?? this.#mint(plan, customer, expiresIn)
    this.#payments.set(payment, licence)
    if (held) {
      const failed = held.status === 'suspended' && held.reason === 'payment_failed'
      if (failed || held.status === 'expired' || held.status === 'downgraded') {
        held.status = 'active'
        held.reason = undefined
      }
      held.plan = plan
      held.expiresIn = expiresIn
      held.sweptFrom = undefined
    }
    const type = held ? 'licence.plan_changed' : 'licence.created'
    return {
      licence,
      event: { type, object: { licence_id: licence.name, plan_id: plan, status: licence.status } },
    }
  }

  renew(licence: ModelLicence, cause: string, expiresIn: number): Outcome {
    if (!this.#first(licence, 'renew', cause) || ['revoked', 'retired'].includes(licence.status)) {
      return { licence }
    }
    if (licence.expiresIn !== undefined) licence.expiresIn = Math.max(licence.expiresIn, expiresIn)
    const ahead = licence.expiresIn === undefined || licence.expiresIn > 0
    if (licence.status === 'expired' && licence.sweptFrom && ahead) {
      Object.assign(licence, licence.sweptFrom, { sweptFrom: undefined })
    }
    const retired = this.plans.get(licence.plan) === 'retired'
    if (licence.status === 'suspended' && licence.reason === 'payment_failed') {
      if (!retired) return this.#move(licence, 'active', 'licence.reactivated')
      licence.reason = 'plan_archived'
    } else if (licence.status === 'active' && retired) {
      return this.#suspend(licence, 'plan_archived')
    }
    return { licence }
  }

  consequence(name: string, licence: ModelLicence, cause: string): Outcome {
    if (!this.#first(licence, name, cause)) return { licence }
    const { status, reason } = licence
    switch (name) {
      case 'payment_failed':
      case 'dispute_inquiry':
        return status === 'active' ? this.#suspend(licence, name) : { licence }
      case 'resume':
        return status === 'suspended' &&
          reason === 'dispute_inquiry' &&
          this.plans.get(licence.plan) === 'active'
          ? this.#move(licence, 'active', 'licence.reactivated')
          : { licence }
      case 'refund':
        return ['revoked', 'retired'].includes(status)
          ? { licence }
          : this.#move(licence, 'revoked', 'licence.revoked')
      case 'partly':
        return ['revoked', 'retired', 'downgraded'].includes(status)
          ? { licence }
          : this.#move(licence, 'downgraded', 'licence.downgraded')
      case 'cancel':
        licence.sweptFrom = undefined
        return working.includes(status) ? this.#move(licence, 'expired', 'licence.expired') : { licence }
      default:
        throw new Error(name)
    }
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

  #suspend(licence: ModelLicence, reason: string): Outcome {
    const outcome = this.#move(licence, 'suspended', 'licence.suspended', { reason })
    licence.reason = reason
    return outcome
  }

  #move(licence: ModelLicence, status: string, type: string, more: Record<string, string> = {}): Outcome {
    Object.assign(licence, { status, reason: undefined, sweptFrom: undefined })
    return { licence, event: { type, object: { licence_id: licence.name, status, ...more } } }
  }
}
