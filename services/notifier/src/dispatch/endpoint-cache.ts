import type { Logger } from '@licensing/process/log'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { decrypt } from '@licensing/database/encryption'
import type { EndpointSettings } from './endpoint-queue.ts'

const mostKept = 20_000
// An unreadable secret is tried again after this time: the operator may have encrypted it with a key of this process.
const readAgainMs = 60_000

type Version = Pick<EndpointRow, 'id' | 'generation'>

/** The newest settings of endpoints, decrypted. Rows may be given in any order: `generation` says which one is newer. */
export class EndpointCache {
  readonly #keys: EncryptionKeys
  readonly #log: Logger
  readonly #known = new Map<string, EndpointSettings>()
  /** Disabled endpoints. They stay disabled. */
  readonly #closed = new Set<string>()
  readonly #unreadable = new Map<string, { generation: bigint; untilMs: number }>()
  /** Unreadable endpoints whose vendors were not alerted, oldest first. */
  readonly #unreported: (Version & { foundMs: number })[] = []

  constructor(keys: EncryptionKeys, log: Logger) {
    this.#keys = keys
    this.#log = log
  }

  /**
   * The settings to send with; null if the endpoint is disabled or its secret cannot be decrypted. In the second case its
   * deliveries wait until the secret is rotated or the key is configured again.
   */
  open(row: EndpointRow): EndpointSettings | null {
    if (this.#closed.has(row.id)) return null
    const known = this.#known.get(row.id)
    if (known && known.generation >= row.generation) return known
    const unreadable = this.#unreadable.get(row.id)
    if (unreadable && unreadable.generation >= row.generation && performance.now() < unreadable.untilMs) {
      return null
    }
    try {
      const secret = decrypt(row.encrypted_secret, row.id, this.#keys)
      const { id, account_id: accountId, url, generation } = row
      const settings = { id, accountId, url, secret, generation }
      this.#unreadable.delete(row.id)
      this.#known.delete(row.id)
      this.#known.set(row.id, settings)
      forgetOldest(this.#known)
      return settings
    } catch (error) {
      this.#foundUnreadable(row, error)
      return null
    }
  }

  /** Endpoints whose secrets could not be decrypted a moment ago. */
  unreadable(): string[] {
    const now = performance.now()
    return [...this.#unreadable].flatMap(([id, { untilMs }]) => (now < untilMs ? [id] : []))
  }

  /** How many endpoints have a secret that cannot be decrypted. */
  get unreadableCount(): number {
    return this.#unreadable.size
  }

  /** Up to `most` endpoints that were found to be unreadable `ageMs` ago or earlier; each is taken once. */
  takeUnreported(most: number, ageMs: number): Version[] {
    const before = performance.now() - ageMs
    const count = this.#unreported.findIndex(({ foundMs }) => foundMs > before)
    return this.#unreported.splice(0, Math.min(most, count === -1 ? most : count))
  }

  close(endpointId: string): void {
    this.#known.delete(endpointId)
    this.#unreadable.delete(endpointId)
    this.#closed.add(endpointId)
    forgetOldest(this.#closed)
  }

  #foundUnreadable({ id, generation }: EndpointRow, error: unknown): void {
    if (this.#unreadable.get(id)?.generation !== generation) {
      this.#log.error({ err: error, endpoint_id: id }, 'the secret of an endpoint cannot be decrypted')
    }
    this.#known.delete(id)
    this.#unreadable.delete(id)
    const foundMs = performance.now()
    this.#unreadable.set(id, { generation, untilMs: foundMs + readAgainMs })
    forgetOldest(this.#unreadable)
    this.#unreported.push({ id, generation, foundMs })
  }
}

function forgetOldest(known: Map<string, unknown> | Set<string>): void {
  const [oldest] = known.keys()
  if (known.size > mostKept && oldest !== undefined) known.delete(oldest)
}
