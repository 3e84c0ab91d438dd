import { checkList, type Acceptance, type RevocationList } from './revocation-list.ts'
import type { LicenceState } from './state.ts'
import type { StoredRevocations } from './stored-record.ts'

interface AcceptedList {
  readonly jws: string
  readonly version: number
  /** The list goes on after `version`, so it does not show that the licence is not revoked. */
  readonly more: boolean
  readonly issuedAt: number
  /** After this time the list is outdated, even if an unsigned answer confirms it. The service signs it again long before. */
  readonly expiresAt: number
  readonly etag: string | null
  /** The `since` of the request that the ETag answers. */
  readonly etagSince: number | null
}

/** The revocations of one licence: the list that was last accepted, and the list that names the licence. */
export class RevocationState {
  #list: AcceptedList | null = null
  #namedBy: string | null = null
  #checkedAt: number | null = null

  get list(): AcceptedList | null {
    return this.#list
  }

  /** When the service last confirmed the list, in milliseconds of trusted time. */
  get checkedAt(): number | null {
    return this.#checkedAt
  }

  /** Whether an authentic list has named the licence. */
  get namesLicence(): boolean {
    return this.#namedBy !== null
  }

  /** Processes an authentic list that came in answer to a request with `since`; `names` if it names the licence. */
  accept(list: RevocationList, names: boolean, from: Origin): Acceptance {
    const acceptance = checkList(list, this.#list?.version ?? null, from.time)
    if (names) this.#namedBy = from.jws
    if (acceptance !== 'accepted') return acceptance
    this.#setList(list, from.jws, from.etag, from.since)
    if (!list.more) this.#checkedAt = from.time
    return acceptance
  }

  /**
   * The service said at `time` that the current list is the latest. This answer is not signed, so it does not extend
   * `expiresAt`.
   */
  confirm(time: number): void {
    this.#checkedAt = time
  }

  /** The trusted time was set to `time`. If the last check seems to be later, it counts as made at `time`. */
  limitCheckedAt(time: number): void {
    if (this.#checkedAt !== null) this.#checkedAt = Math.min(this.#checkedAt, time)
  }

  /** Restores an authentic list that names the licence. */
  restoreNamedBy(jws: string): void {
    this.#namedBy ??= jws
  }

  /** Uses the list that the store has for the same licence, if it is newer. */
  restoreList(list: RevocationList, jws: string, stored: StoredRevocations): void {
    const current = this.#list
    if (current?.jws === jws) {
      this.#checkedAt = Math.max(this.#checkedAt ?? stored.checkedAt, stored.checkedAt)
    } else if (
      !current ||
      list.version > current.version ||
      (list.version === current.version && list.issuedAt > current.issuedAt)
    ) {
      this.#setList(list, jws, stored.etag, stored.etagSince)
      this.#checkedAt = stored.checkedAt
    }
  }

  save(time: number): StoredRevocations | null {
    if (this.#list === null && this.#namedBy === null) return null
    return {
      list: this.#list?.jws ?? null,
      namedBy: this.#namedBy,
      etag: this.#list?.etag ?? null,
      etagSince: this.#list?.etagSince ?? null,
      checkedAt: this.#checkedAt ?? time,
    }
  }

  freshness(time: number, checkIntervalMs: number): LicenceState['revocations'] {
    if (!this.#list) return 'unknown'
    const { more, expiresAt } = this.#list
    const isChecked = this.#checkedAt !== null && time - this.#checkedAt <= 2 * checkIntervalMs
    const isCurrent = isChecked && !more && time < expiresAt
    return isCurrent ? 'current' : 'stale'
  }

  #setList(list: RevocationList, jws: string, etag: string | null, since: number | null): void {
    const { version, more, issuedAt, expiresAt } = list
    this.#list = { jws, version, more, issuedAt, expiresAt, etag, etagSince: since }
  }
}

interface Origin {
  readonly jws: string
  readonly etag: string | null
  readonly since: number | null
  readonly time: number
}
