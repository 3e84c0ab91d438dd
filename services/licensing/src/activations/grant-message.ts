import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { TokenGrantSchema } from '@licensing/proto/products'
import type { ProductLicence } from './activation-queries.ts'
import type { ProductDependencies } from '../dependencies.ts'
import { grantToken } from './token.ts'
import type { TokenSubject } from './token.ts'

/** A new token for an activation of a licence that may run. */
export async function grantMessage(
  deps: ProductDependencies,
  activationId: string,
  licence: ProductLicence,
  now: Date,
  nonce?: string,
): Promise<MessageInitShape<typeof TokenGrantSchema>> {
  const { keys, tokens } = deps
  const subject = { ...(await tokenSubject(deps, activationId, licence)), nonce }
  const grant = await grantToken(subject, await keys.of(licence.application_id), tokens, now)
  return {
    activationId,
    licenceId: licence.id,
    token: grant.token,
    expiresAt: timestampFromDate(grant.expiresAt),
    refreshAfter: timestampFromDate(grant.refreshAfter),
    checkIntervalSeconds: tokens.checkIntervalSeconds,
  }
}

/** The content of a token of this activation. */
export async function tokenSubject(
  { snapshots }: ProductDependencies,
  activationId: string,
  licence: ProductLicence,
): Promise<TokenSubject> {
  return {
    activationId,
    licenceId: licence.id,
    applicationId: licence.application_id,
    planId: licence.plan_id,
    status: licence.status,
    entitlements: await snapshots.valuesOf(licence),
    seats: licence.max_seats,
    expiresOn: licence.expires_on,
  }
}
