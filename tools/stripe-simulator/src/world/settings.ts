import { apiVersion } from '../objects/api-version.ts'
import type { Owner } from './collection.ts'

/** How Stripe treats an account, as far as that differs between accounts. */
type AccountSettings = {
  /** `asynchronous`: the balance transaction and the application fee of a charge come later, with `charge.updated`. */
  capture: 'immediate' | 'asynchronous'
  /** How much later; Stripe promises an hour. */
  captureSeconds: number
  /** The version that events are made in; the webhook endpoint has it at Stripe. */
  apiVersion: string
  /** Whether events and answers say that they are about real money. */
  livemode: boolean
  /** Sales tax that is added to what customers pay, in percent. */
  taxPercent: number
}

const usual: AccountSettings = {
  capture: 'immediate',
  captureSeconds: 3600,
  apiVersion,
  livemode: false,
  taxPercent: 0,
}

const everyone = '*'

export class Settings {
  readonly #chosen = new Map<string, Partial<AccountSettings>>()

  of(account: Owner): AccountSettings {
    return { ...usual, ...this.#chosen.get(everyone), ...this.#chosen.get(account ?? '') }
  }

  /** Without an account: of all that have chosen nothing else, the platform included. */
  choose(account: string | undefined, chosen: Partial<AccountSettings>): void {
    const key = account ?? everyone
    this.#chosen.set(key, { ...this.#chosen.get(key), ...chosen })
  }

  clear(): void {
    this.#chosen.clear()
  }

  dump(): Record<string, Partial<AccountSettings>> {
    return Object.fromEntries(this.#chosen)
  }

  restore(saved: Record<string, Partial<AccountSettings>>): void {
    this.#chosen.clear()
    for (const [account, chosen] of Object.entries(saved)) this.#chosen.set(account, chosen)
  }
}
