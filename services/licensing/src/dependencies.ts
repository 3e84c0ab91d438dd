import type { Change } from '@licensing/changes/change'
import type { HandlerOf } from '@licensing/changes/repeatable'
import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'
import type { ServiceClient } from '@licensing/grpc/client'
import type { KeyedQueue } from '@licensing/grpc/keyed-queue'
import type { Logger } from '@licensing/process/log'
import type { CatalogService } from '@licensing/proto/catalog'
import type { LicensingService } from '@licensing/proto/licensing'
import type { ActivatedLicence } from './activations/activation-queries.ts'
import type { Lookups } from './activations/lookups.ts'
import type { TokenSettings } from './activations/token.ts'
import type { CallHome } from './call-homes/call-home-queries.ts'
import type { RecordedCall } from './call-homes/call-home.ts'
import type { Snapshots } from './plans/snapshots.ts'
import type { PublishedKeys } from './signing-keys/signed-key-sets.ts'
import type { SigningKeys } from './signing-keys/signing-keys.ts'

/** Dependencies of the calls that vendors and other services make. */
export interface LicensingDependencies {
  sql: Database
  /** A pool for lists: every statement is planned for its own values. */
  lists: Database
  /** By account: the lists of one account do not delay those of others. */
  listQueue: KeyedQueue
  snapshots: Snapshots
  change: Change
  catalog: ServiceClient<typeof CatalogService>
  log: Logger
}

/** The handler of an RPC. */
export type Handler<Rpc extends keyof (typeof LicensingService)['method']> = HandlerOf<
  typeof LicensingService,
  Rpc,
  LicensingDependencies
>

/** Dependencies of the calls that installed products make. */
export interface ProductDependencies {
  sql: Database
  log: Logger
  lookups: Lookups
  findActivation: (activationId: string) => Promise<ActivatedLicence | undefined>
  change: Change
  keys: SigningKeys
  /** The content of `jwks.json`. */
  publishedKeys: (applicationId: string) => Promise<PublishedKeys>
  encryption: EncryptionKeys
  snapshots: Snapshots
  tokens: TokenSettings
  /** Resolves when the call is recorded. Calls that arrive together are written together. */
  callHome: (call: CallHome) => Promise<RecordedCall>
  /** Gives a lease to an activation of a floating licence that holds none. @returns false if none is free */
  takeLease: (activation: ActivatedLicence) => Promise<boolean>
  /**
   * If the purchase that governs a licence has ended and another one is valid, that one governs it.
   *
   * @returns whether it changed
   */
  replaceEndedPurchase: (licenceId: string) => Promise<boolean>
  now: () => Date
}
