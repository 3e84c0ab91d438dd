import type { Change } from '@licensing/changes/change'
import type { HandlerOf } from '@licensing/changes/repeatable'
import type { Database } from '@licensing/database/connect'
import type { ServiceClient } from '@licensing/grpc/client'
import type { KeyedQueue } from '@licensing/grpc/keyed-queue'
import type { Logger } from '@licensing/process/log'
import type { LicensingService } from '@licensing/proto/licensing'
import type { RootKeyService } from '@licensing/proto/root-keys'
import type { CatalogService } from '@licensing/proto/catalog'
import type { Fee } from './accounts/account-queries.ts'
import type { KeyUse } from './api-keys/key-use.ts'

/** Dependencies of the RPC handlers. */
export interface CatalogDependencies {
  sql: Database
  /** A pool of one connection, for lookups of API keys that may not exist. */
  lookups: Database
  change: Change
  /** Runs changes of definitions and plans one at a time per application, and of applications and API keys per account. */
  queue: KeyedQueue
  /** Runs pushes of all plans of an application one at a time. */
  pushes: KeyedQueue
  licensing: Pick<
    ServiceClient<typeof LicensingService>,
    'syncPlans' | 'syncDefinitions' | 'archivePlan' | 'countActiveLicences'
  >
  rootKeys: Pick<ServiceClient<typeof RootKeyService>, 'getRootKeys'>
  keyUse: KeyUse
  newAccountFee: Fee
  /** Wakes the sender of confirmation mails. */
  confirmationRequested: () => void
  log: Logger
}

/** The handler of an RPC. */
export type Handler<Rpc extends keyof (typeof CatalogService)['method']> = HandlerOf<
  typeof CatalogService,
  Rpc,
  CatalogDependencies
>
