import { createHash } from 'node:crypto'
import type { Owner } from '../world/collection.ts'
import { StripeError } from './stripe-error.ts'

export type Answer = { status: number; body: string }
type Saved = { fingerprint: string; answer: Answer; requestId: string; at: number }
export type SavedAnswers = [key: string, saved: Saved][]

const keptMs = 24 * 3600 * 1000

/** The saved answers of idempotency keys, kept for 24 hours, separately for each account. */
export class IdempotencyKeys {
  readonly #saved = new Map<string, Saved>()

  /** Returns the saved answer of the same request. If another request has the same key, it throws. */
  replay(account: Owner, key: string, fingerprint: string): Saved | undefined {
    const saved = this.#saved.get(scoped(account, key))
    if (saved === undefined || saved.at < Date.now() - keptMs) return undefined
    if (saved.fingerprint === fingerprint) return saved
    throw new StripeError(400, {
      type: 'idempotency_error',
      message:
        'Keys for idempotent requests can only be used with the same parameters they were first used with.',
    })
  }

  save(account: Owner, key: string, saved: Omit<Saved, 'at'>): void {
    this.#forgetOld()
    this.#saved.set(scoped(account, key), { ...saved, at: Date.now() })
  }

  dump(): SavedAnswers {
    return [...this.#saved]
  }

  restore(saved: SavedAnswers): void {
    this.#saved.clear()
    for (const [key, value] of saved) this.#saved.set(key, value)
  }

  /** Deletes old answers. The map is in order of insertion, so it stops at the first recent answer. */
  #forgetOld(): void {
    const before = Date.now() - keptMs
    for (const [key, { at }] of this.#saved) {
      if (at >= before) return
      this.#saved.delete(key)
    }
  }
}

export function fingerprintOf(method: string, path: string, rawBody: string): string {
  const parameters = rawBody.split('&').toSorted().join('&')
  return createHash('sha256').update(`${method} ${path}\n${parameters}`).digest('base64url')
}

function scoped(account: Owner, key: string): string {
  return `${account ?? ''} ${key}`
}
