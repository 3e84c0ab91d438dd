import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { readLicenceKey } from '@licensing/formats/licence-key'
import { audit } from '@licensing/changes/audit'
import type { NewAuditEntry } from '@licensing/changes/audit'
import { decrypt, encrypt } from '@licensing/database/encryption'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { CustomerSessionSchema } from '@licensing/proto/customers'
import type {
  CreateCustomerSessionRequest,
  EndCustomerSessionsRequest,
  FindCustomerSessionResponseSchema,
  SignInWithKeyRequest,
} from '@licensing/proto/customers'
import type { LicensingDependencies, ProductDependencies } from '../dependencies.ts'
import { licenceNotFound } from '../lifecycle/refusals.ts'
import { endSessions, findSessionTimes } from './customer-queries.ts'
import type { SessionTimes } from './customer-queries.ts'

type Session = MessageInitShape<typeof CustomerSessionSchema>

/**
 * A session is a token with its content, encrypted, so that nothing has to be stored for it. The licence has the time since
 * which its sessions count: ending them moves that time.
 */
interface Content {
  licenceId: string
  /** Milliseconds by the database's clock. */
  startedMs: number
  endsMs: number
  returnUrl?: string
}

const prefix = 'cst_'
/** The purpose of the encryption: bytes that were encrypted for a column do not decrypt as a token. */
const purpose = 'customer session'
const minuteMs = 60_000
const minutesOf = { min: 5, max: 1_440, withKey: 60 }

/** A link for the customer. */
export async function createCustomerSession(
  { sql, change }: LicensingDependencies,
  encryption: EncryptionKeys,
  request: CreateCustomerSessionRequest,
): Promise<Session> {
  const { minutes, returnUrl } = request
  if (minutes < minutesOf.min || minutes > minutesOf.max) {
    throw invalid('/minutes', `must be a whole number from ${minutesOf.min} to ${minutesOf.max}`)
  }
  const times = await findSessionTimes(sql, request)
  if (!times) throw licenceNotFound(request)
  const session = newSession(request.licenceId, times, minutes, encryption, returnUrl)
  // Nothing else is stored: a repetition gets this answer without the token.
  await change((tx) => audit(tx, sessionEntry(request, times)), {
    answer: { schema: CustomerSessionSchema, toMessage: () => session },
  })
  return session
}

/** Creating a session and ending all of them changes no field that the API shows. */
function sessionEntry(
  { accountId, licenceId }: { accountId: string; licenceId: string },
  { applicationId }: { applicationId: string },
): NewAuditEntry {
  return { accountId, applicationId, resourceId: licenceId, changes: {} }
}

/** A session for anybody who has the key, in every status of the licence. */
export async function signInWithKey(
  { sql, lookups, encryption }: ProductDependencies,
  { applicationId, licenceKey: sent }: SignInWithKeyRequest,
): Promise<Session> {
  const licenceKey = readLicenceKey(sent)
  const licence = licenceKey && (await lookups.licenceOf({ licenceKey, fingerprint: '' }))
  if (!licence || licence.application_id !== applicationId) throw unknownKey()
  const times = await findSessionTimes(sql, { accountId: licence.account_id, licenceId: licence.id })
  if (!times) throw unknownKey()
  return newSession(licence.id, times, minutesOf.withKey, encryption)
}

function unknownKey(): ServiceError {
  return new ServiceError('not_found', 'there is no licence with this key')
}

function newSession(
  licenceId: string,
  { nowMs, sinceMs }: SessionTimes,
  minutes: number,
  encryption: EncryptionKeys,
  returnUrl?: string,
): Session {
  const endsMs = nowMs + minutes * minuteMs
  // Sessions that were ended in this millisecond stay ended, and this one counts.
  const content: Content = { licenceId, startedMs: Math.max(nowMs, sinceMs), endsMs }
  if (returnUrl !== undefined) content.returnUrl = returnUrl
  const token = encrypt(JSON.stringify(content), purpose, encryption).toString('base64url')
  return { token: `${prefix}${token}`, expiresAt: timestampFromMs(endsMs) }
}

export async function endCustomerSessions(
  { change }: LicensingDependencies,
  request: EndCustomerSessionsRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  await change(async (tx) => {
    const applicationId = await endSessions(tx, request)
    if (applicationId === undefined) throw licenceNotFound(request)
    await audit(tx, sessionEntry(request, { applicationId }))
  })
  return {}
}

/** The session of a token. If there is none, the answer says whether the token is genuine. */
export async function findCustomerSession(
  { sql, encryption }: ProductDependencies,
  token: string,
): Promise<MessageInitShape<typeof FindCustomerSessionResponseSchema>> {
  const content = contentOf(token, encryption)
  if (!content) return { hasEnded: false }
  const { licenceId, startedMs, endsMs, returnUrl } = content
  const times = await findSessionTimes(sql, { licenceId })
  if (!times || startedMs < times.sinceMs || endsMs <= times.nowMs) return { hasEnded: true }
  const session = {
    accountId: times.accountId,
    applicationId: times.applicationId,
    licenceId,
    expiresAt: timestampFromMs(endsMs),
  }
  return { session: returnUrl === undefined ? session : { ...session, returnUrl }, hasEnded: false }
}

function contentOf(token: string, encryption: EncryptionKeys): Content | undefined {
  const bytes = Buffer.from(token.slice(prefix.length), 'base64url')
  // Other texts that decode to the same bytes are no tokens.
  if (token !== `${prefix}${bytes.toString('base64url')}`) return undefined
  try {
    return JSON.parse(decrypt(bytes, purpose, encryption)) as Content
  } catch {
    return undefined
  }
}
