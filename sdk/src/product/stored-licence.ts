import { readLicenceKey } from './licence-key.ts'
import type { AbsenceReason } from './state.ts'
import type { StoredRecord } from './stored-record.ts'
import type { VerifiedToken, TokenIdentity, TokenReader } from './token-reader.ts'

export interface InstallationIdentity extends TokenIdentity {
  /** The key that the product was given; null to use the stored one. */
  readonly licenceKey: string | null
}

/** An activation that this machine held under another fingerprint. */
export interface FormerActivation {
  readonly token: VerifiedToken
  readonly fingerprint: string
}

/** The result of reading a stored record: a token, or why there is none. */
export interface StoredLicence {
  readonly token: VerifiedToken | null
  readonly former: FormerActivation | null
  readonly absence: AbsenceReason | null
}

/** The record is of another machine or another key. */
export function isForeign({ absence }: StoredLicence): boolean {
  return absence === 'licence_key_changed' || absence === 'fingerprint_changed'
}

const NO_LICENCE: StoredLicence = { token: null, former: null, absence: null }

/** Verifies the token of a stored record at `time`, in milliseconds, and checks which installation it is for. */
export async function readStoredLicence(
  record: StoredRecord,
  identity: InstallationIdentity,
  reader: TokenReader,
  time: number,
): Promise<StoredLicence> {
  const { licenceKey, fingerprint } = identity
  if (licenceKey !== null && record.licenceKey !== null && !sameKey(licenceKey, record.licenceKey)) {
    return { ...NO_LICENCE, absence: 'licence_key_changed' }
  }
  if (record.token === null) return NO_LICENCE
  const token = await reader.readStored(record, record.token, time)
  if (typeof token === 'string') return { ...NO_LICENCE, absence: 'store_corrupt' }
  if (record.fingerprint === fingerprint) return { ...NO_LICENCE, token }
  const former = { token, fingerprint: record.fingerprint }
  return { ...NO_LICENCE, former, absence: 'fingerprint_changed' }
}

/** The service reads all forms of a licence key as one. */
function sameKey(one: string, other: string): boolean {
  const key = readLicenceKey(one)
  return one === other || (key !== undefined && key === readLicenceKey(other))
}
