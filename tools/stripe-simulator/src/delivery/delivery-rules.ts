import type { SimulatedEvent } from '../objects/event.ts'
import { newId } from '../world/ids.ts'
import type { SignatureKind } from './sign.ts'

/**
 * What becomes of the events that match:
 * hold     kept until released
 * reorder  kept until `next` of them are there, then sent last first
 * delay    sent after `delay_ms`
 * duplicate sent `times` times at once
 * drop     never sent; only `GET /v1/events` has it
 * forge    sent once with a bad signature and not again
 */
export const ruleActions = ['hold', 'reorder', 'delay', 'duplicate', 'drop', 'forge'] as const

export type DeliveryRule = {
  id: string
  action: (typeof ruleActions)[number]
  /** Event types; none means every type. */
  types: string[]
  account: string | undefined
  /** How many events it still takes; null for all until it is removed. */
  remaining: number | null
  delay_ms: number
  times: number
  signature: SignatureKind
  /** Events that a reorder has gathered. */
  gathered: string[]
}

/** The first rule that matches takes the event. */
export class DeliveryRules {
  #rules: DeliveryRule[] = []

  add(rule: Omit<DeliveryRule, 'id' | 'gathered'>): DeliveryRule {
    const added = { ...rule, id: newId('rule'), gathered: [] }
    this.#rules.push(added)
    return added
  }

  take(event: SimulatedEvent): DeliveryRule | undefined {
    const rule = this.#rules.find(
      ({ types, account }) =>
        (types.length === 0 || types.includes(event.type)) &&
        (account === undefined || account === event.account),
    )
    if (rule === undefined || rule.remaining === null) return rule
    rule.remaining -= 1
    this.#rules = this.#rules.filter((each) => each.remaining !== 0)
    return rule
  }

  list(): DeliveryRule[] {
    return this.#rules
  }

  clear(): void {
    this.#rules = []
  }

  stopHolding(): void {
    this.#rules = this.#rules.filter(({ action }) => action !== 'hold' && action !== 'reorder')
  }
}
