import type { Logger } from '@licensing/process/log'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { decrypt } from '@licensing/database/encryption'
import type { EndpointSettings } from './endpoint-queue.ts'

const maxKept = 20_000
// An unreadable secret is tried again after this time: the operator may have encrypted it with a key of this process.
const retryMs = 60_000

type Version = Pick<EndpointRow, 'id' | 'generation'>

/** The newest settings of endpoints, decrypted. Rows may be given in any order: `generation` says which one is newer. */
export class EndpointCache {
  readonly #keys: EncryptionKeys
  readonly #log: Logger
  readonly #known = new Map<string, EndpointSettings>()
  /** Disabled endpoints. They stay disabled. */
  readonly #closed = new Set<string>()
  readonly #unreadable = new Map<string, { generation: bigint; foundMs: number }>()

  constructor(keys: EncryptionKeys, log: Logger) {
    this.#keys = keys
    this.#log = log
  }

  /**
   * The settings to send with; null if the endpoint is disabled, or its secret or headers cannot be decrypted. In the second case its
   * deliveries wait until they are replaced or the key is configured again.
   */
  open(row: EndpointRow): EndpointSettings | null {
    if (this.#closed.has(row.id)) return null
    const known = this.#known.get(row.id)
    if (known && known.generation >= row.generation) return known
    const unreadable = this.#unreadable.get(row.id)
    if (unreadable && unreadable.generation >= row.generation && isRecent(unreadable)) return null
    try {
      const settings = this.#settingsOf(row)
      this.#unreadable.delete(row.id)
      this.#known.delete(row.id)
      this.#known.set(row.id, settings)
      deleteOldest(this.#known)
      return settings
    } catch (error) {
      this.#markUnreadable(row, error)
      return null
    }
  }

  /** Endpoints whose secrets could not be decrypted a moment ago. */
  unreadable(): string[] {
    return [...this.#unreadable].flatMap(([id, found]) => (isRecent(found) ? [id] : []))
  }

  /** How many endpoints have a secret that cannot be decrypted. */
  get unreadableCount(): number {
    return this.#unreadable.size
  }

  /** Endpoints that have been unreadable for at least `ageMs`. */
  unreadableFor(ageMs: number): Version[] {
    const before = performance.now() - ageMs
    return [...this.#unreadable].flatMap(([id, { generation, foundMs }]) =>
      foundMs <= before ? [{ id, generation }] : [],
    )
  }

  close(endpointId: string): void {
    this.#known.delete(endpointId)
    this.#unreadable.delete(endpointId)
    this.#closed.add(endpointId)
    deleteOldest(this.#closed)
  }

  #settingsOf(row: EndpointRow): EndpointSettings {
    const { id, account_id: accountId, url, paused, signature, generation } = row
    const secret = decrypt(row.encrypted_secret, id, this.#keys)
    const headers = row.encrypted_headers ? decrypt(row.encrypted_headers, id, this.#keys) : '{}'
    return {
      id,
      accountId,
      url,
      paused,
      signature,
      secret,
      former: this.#formerOf(row),
      headers: Object.entries(JSON.parse(headers) as Record<string, string>).flat(),
      generation,
    }
  }

  /** A former secret that cannot be decrypted is not used: the new one has replaced it, perhaps for this reason. */
  #formerOf({ id, former_secret: encrypted, former_secret_until: until }: EndpointRow) {
    if (!encrypted || !until) return null
    try {
      return { secret: decrypt(encrypted, id, this.#keys), until }
    } catch (error) {
      this.#log.warn({ err: error, endpoint_id: id }, 'the former secret of an endpoint cannot be decrypted')
      return null
    }
  }

  #markUnreadable({ id, generation }: EndpointRow, error: unknown): void {
    if (this.#unreadable.get(id)?.generation !== generation) {
      this.#log.error(
        { err: error, endpoint_id: id },
        'the secret or the headers of an endpoint cannot be decrypted',
      )
    }
    this.#known.delete(id)
    this.#unreadable.delete(id)
    this.#unreadable.set(id, { generation, foundMs: performance.now() })
    deleteOldest(this.#unreadable)
  }
}

function isRecent({ foundMs }: { foundMs: number }): boolean {
  return performance.now() < foundMs + retryMs
}

function deleteOldest(known: Map<string, unknown> | Set<string>): void {
  const [oldest] = known.keys()
  if (known.size > maxKept && oldest !== undefined) known.delete(oldest)
}
