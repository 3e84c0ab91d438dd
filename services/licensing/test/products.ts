import { timestampDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { TokenGrant } from '@licensing/proto/products'
import { createLocalJWKSet, decodeJwt, jwtVerify } from 'jose'
import type { JSONWebKeySet, JWTPayload } from 'jose'
import { expect } from 'vitest'
import type { Harness } from './harness.ts'

export type Products = Harness['products']

/** An installed product that asks for a slot. */
export interface Installed {
  fingerprint?: string
  host?: string
  productVersion?: string
}

export function activate(products: Products, licence: { key: string }, installed: Installed = {}) {
  const { fingerprint = newId('evt'), host = 'machine.example.com', productVersion = '1.0' } = installed
  return products.activate({ licenceKey: licence.key, fingerprint, host, productVersion })
}

export async function givenActivation(
  products: Products,
  licence: { key: string },
  installed: Installed = {},
): Promise<TokenGrant> {
  return (await activate(products, licence, installed)).grant!
}

interface Asked extends Installed {
  days?: number
  accountId?: string
  applicationId?: string
}

export function activateOffline(
  { accountId, applicationId, products }: Harness,
  { key: licenceKey }: { key: string },
  asked: Asked = {},
) {
  const machine = { fingerprint: newId('evt'), host: 'island.example.com', productVersion: '1.0', days: 90 }
  return products.activateOffline({ accountId, applicationId, licenceKey, ...machine, ...asked })
}

export const tokenOf = ({ file }: { file: string }) => file.split('\n')[1]!

/** The request of an activation's own calls. */
export function callOf({ activationId, token }: TokenGrant, installed: Installed = {}) {
  const { host = 'machine.example.com', productVersion = '1.0' } = installed
  return { activationId, token, host, productVersion }
}

export async function keysOf(products: Products, applicationId: string): Promise<JSONWebKeySet> {
  const { jwksJson } = await products.getSigningKeys({ applicationId })
  return JSON.parse(jwksJson) as JSONWebKeySet
}

/** An answer about revocations. */
export async function revocationsOf(
  products: Products,
  request: Parameters<Products['getRevocations']>[0],
): Promise<RevocationsAnswer> {
  const { version, etag, notModified, more, json } = await products.getRevocations(request)
  if (notModified) return { version, etag, notModified, more, revoked: [], signature: '' }
  const answer = JSON.parse(Buffer.from(json).toString()) as Pick<RevocationsAnswer, 'revoked' | 'signature'>
  expect(answer).toEqual({ ...answer, version: Number(version), more })
  return { etag, notModified, ...answer, version, more }
}

interface RevocationsAnswer {
  version: bigint
  etag: string
  notModified: boolean
  more: boolean
  revoked: string[]
  signature: string
}

/** The claims of a token, verified like in a product. */
export async function verified(
  { products, applicationId, clock }: Harness,
  token: string,
): Promise<JWTPayload> {
  const keys = createLocalJWKSet(await keysOf(products, applicationId))
  const currentDate = new Date(Date.now() + clock.aheadMs)
  const { payload } = await jwtVerify(token, keys, { audience: applicationId, currentDate })
  return payload
}

/** The times of a token, in seconds since the epoch. */
export function lifeOf({ token, expiresAt, refreshAfter }: TokenGrant) {
  const { iat, exp } = decodeJwt(token)
  return {
    iat: iat!,
    exp: exp!,
    expiresAt: timestampDate(expiresAt!).getTime() / 1000,
    refreshAfter: timestampDate(refreshAfter!).getTime() / 1000,
  }
}
