import { apiVersion } from '../objects/api-version.ts'
import type { Owner } from './collection.ts'

/** Settings of an account. */
type AccountSettings = {
  /** `asynchronous`: the balance transaction and the application fee of a charge come later, with `charge.updated`. */
  capture: 'immediate' | 'asynchronous'
  /** The API version in which events are listed and read by their id. Deliveries have the endpoint's. */
  apiVersion: string
  /** Sales tax in percent, which is added to the price. */
  taxPercent: number
}

const usual: AccountSettings = {
  capture: 'immediate',
  apiVersion,
  taxPercent: 0,
}

const everyone = '*'

export class Settings {
  readonly #chosen = new Map<string, Partial<AccountSettings>>()

  of(account: Owner): AccountSettings {
    return { ...usual, ...this.#chosen.get(everyone), ...this.#chosen.get(account ?? '') }
  }

  /** Changes settings of an account. Without an account, it changes the defaults, which also apply to the platform. */
  choose(account: string | undefined, chosen: Partial<AccountSettings>): void {
    const key = account ?? everyone
    this.#chosen.set(key, { ...this.#chosen.get(key), ...chosen })
  }

  dump(): Record<string, Partial<AccountSettings>> {
    return Object.fromEntries(this.#chosen)
  }

  restore(saved: Record<string, Partial<AccountSettings>>): void {
    this.#chosen.clear()
    for (const [account, chosen] of Object.entries(saved)) this.#chosen.set(account, chosen)
  }
}
