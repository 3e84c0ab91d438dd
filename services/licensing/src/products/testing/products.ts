import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import type { TokenGrant } from '@licensing/proto/products'
import { ProductService } from '@licensing/proto/products'
import { createLocalJWKSet, decodeJwt, jwtVerify } from 'jose'
import type { JSONWebKeySet, JWTPayload } from 'jose'
import { randomBytes } from 'node:crypto'
import { startHarness } from '../../testing/harness.ts'
import type { Harness } from '../../testing/harness.ts'
import { productDeps } from '../product-deps.ts'
import type { ProductConfig } from '../product-deps.ts'
import { createSnapshots } from '../../plans/snapshots.ts'
import { productService } from '../service.ts'

export type Products = ServiceClient<typeof ProductService>

/** The products' service beside the licences', on one database; its clock can be moved ahead. */
export interface ProductsHarness extends Harness {
  products: Products
  clock: { aheadMs: number }
  config: ProductConfig
  /** The products' service of another replica. */
  otherProducts(changes?: Partial<ProductConfig>): Promise<Products>
}

export async function startProducts(given: Partial<ProductConfig> = {}): Promise<ProductsHarness> {
  const running = new AsyncDisposableStack()
  const harness = running.use(await startHarness())
  const clock = { aheadMs: 0 }
  const config = {
    ENCRYPTION_KEY: randomBytes(32).toString('base64url'),
    TOKEN_ISSUER: 'https://licensing.example',
    TOKEN_LIFE_SECONDS: 86_400,
    CHECK_INTERVAL_SECONDS: 900,
    ...given,
  }
  const serveProducts = async (sql: Database, changes: Partial<ProductConfig> = {}) => {
    const now = () => new Date(Date.now() + clock.aheadMs)
    const server = await serve({
      address: { host: '127.0.0.1', port: 0 },
      services: [
        productService(productDeps({ sql, snapshots: createSnapshots(sql) }, { ...config, ...changes }, now)),
      ],
      log: harness.deps.log,
      health: new Health(),
      isUnavailable: isDatabaseUnavailable,
    })
    running.defer(() => server.stop())
    const client = connectTo(ProductService, `127.0.0.1:${server.port}`, { timeoutMs: 30_000 })
    running.defer(() => client.close())
    return client.calls
  }
  const products = await serveProducts(harness.sql)
  return {
    ...harness,
    products,
    clock,
    config,
    otherProducts: async (changes) => {
      const replica = running.use(await harness.replica())
      return serveProducts(replica.sql, changes)
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** An installed product that asks for a place. */
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

/** What an activation's own calls carry. */
export function callOf({ activationId, token }: TokenGrant, installed: Installed = {}) {
  const { host = 'machine.example.com', productVersion = '1.0' } = installed
  return { activationId, token, host, productVersion }
}

export async function keysOf(products: Products, applicationId: string): Promise<JSONWebKeySet> {
  const { jwksJson } = await products.getSigningKeys({ applicationId })
  return JSON.parse(jwksJson) as JSONWebKeySet
}

/** A token's claims, verified as a product does it. */
export async function verified(
  { products, applicationId, clock }: ProductsHarness,
  token: string,
): Promise<JWTPayload> {
  const keys = createLocalJWKSet(await keysOf(products, applicationId))
  const currentDate = new Date(Date.now() + clock.aheadMs)
  const { payload } = await jwtVerify(token, keys, { audience: applicationId, currentDate })
  return payload
}

/** The span of a token's life, in seconds since the epoch. */
export function lifeOf({ token, expiresAt, refreshAfter }: TokenGrant) {
  const { iat, exp } = decodeJwt(token)
  return {
    iat: iat!,
    exp: exp!,
    expiresAt: timestampDate(expiresAt!).getTime() / 1000,
    refreshAfter: timestampDate(refreshAfter!).getTime() / 1000,
  }
}
