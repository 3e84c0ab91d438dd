import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { createGatheredChange } from '@licensing/changes/gathered'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { ActivateOfflineResponseSchema } from '@licensing/proto/products'
import type { ActivateOfflineRequest } from '@licensing/proto/products'
import { findCurrentRootKeys } from '../signing-keys/root-key-queries.ts'
import { signKeySet } from '../signing-keys/root-key.ts'
import { ensureRootKeys } from '../signing-keys/root-keys.ts'
import { recordedSlot } from './activate.ts'
import { checkNonce } from './check-installation.ts'
import type { ProductDependencies } from '../dependencies.ts'
import type { GiveSlot } from './give-slot.ts'
import { tokenSubject, grantToken } from './token.ts'
import { keepSigningKeyUntil } from '../signing-keys/signing-key-queries.ts'
import type { KeySet } from '../signing-keys/signing-keys.ts'
import type { Grant } from './token.ts'

const maxDays = 366

type FileAnswer = MessageInitShape<typeof ActivateOfflineResponseSchema>

/** The answer of a call, and what must hold before it is returned. */
interface SignedFile {
  kid: string
  expiresAt: Date
  answer: FileAnswer
}

/**
 * The handler of ActivateOffline, which activates a machine without a network. The answer contains a file for it: a token,
 * and the key that signed the token, itself signed by each root key. If the fingerprint is already activated, a new file for
 * the same activation is made.
 */
export function createActivateOffline(
  deps: ProductDependencies,
  giveSlot: GiveSlot,
): (request: ActivateOfflineRequest) => Promise<FileAnswer> {
  // The key must verify as long as the file is valid. The answer is recorded in the same transaction: if the call is
  // repeated before this, it finds the same activation.
  const keepVerifiable = createGatheredChange<SignedFile, typeof ActivateOfflineResponseSchema, FileAnswer>(
    deps.change,
    {
      work: async (tx, files) => {
        const until = new Date(Math.max(...files.map(({ expiresAt }) => expiresAt.getTime())))
        const isKept = await keepSigningKeyUntil(tx, files[0]!.kid, until)
        return files.map(({ answer }) =>
          isKept ? { kind: 'done', made: answer } : { kind: 'refused', error: keysAreChanged() },
        )
      },
      answer: { schema: ActivateOfflineResponseSchema, toMessage: (answer) => answer },
      queueOf: ({ kid }) => kid,
    },
  )
  return async (request) => {
    const { days, accountId, applicationId, fingerprint, nonce } = request
    checkNonce(nonce)
    if (days < 1 || days > maxDays) throw invalid('/days', `must be a whole number from 1 to ${maxDays}`)
    const settings = { ...deps.tokens, lifeSeconds: days * 86_400 }
    const asked = { ...request, fileSeconds: settings.lifeSeconds }
    const slot = await recordedSlot(deps, () => giveSlot(asked, { accountId, applicationId }))
    const subject = { ...(await tokenSubject(deps, slot)), offline: { fingerprint }, nonce }
    const keys = await deps.keys.latest(applicationId)
    const grant = grantToken(subject, keys, settings, slot.now)
    const answer = {
      activationId: slot.activationId,
      licenceId: slot.licence.id,
      expiresAt: timestampFromDate(grant.expiresAt),
      file: await fileOf(deps, applicationId, keys, grant, slot.now),
      created: slot.created,
    }
    return keepVerifiable({ kid: keys.kid, expiresAt: grant.expiresAt, answer })
  }
}

const keysAreChanged = () =>
  new ServiceError('unavailable', 'the application’s keys are being changed: try again')

/** Text lines, so that the file survives a mail or a memory stick. */
async function fileOf(
  { sql, encryption }: ProductDependencies,
  applicationId: string,
  keys: KeySet,
  grant: Grant,
  now: Date,
): Promise<string> {
  await ensureRootKeys(sql, encryption, [applicationId])
  const claims = {
    app_id: applicationId,
    // Contains only the key that signed the token, because other keys must not be trusted for as long as the file is
    // valid.
    keys: keys.publicJwks.filter(({ kid }) => kid === keys.kid),
    iat: Math.floor(now.getTime() / 1000),
    exp: grant.expiresAt.getTime() / 1000,
  }
  const roots = await findCurrentRootKeys(sql, applicationId)
  const signed = await Promise.all(roots.map((root) => signKeySet(root, claims, encryption)))
  const lines = ['-----BEGIN LICENCE-----', grant.token, ...signed, '-----END LICENCE-----']
  return `${lines.join('\n')}\n`
}
