import type { Database } from '@licensing/database/connect'
import type { Outbox } from '@licensing/events/outbox'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Logger } from '@licensing/process/log'
import type { CatalogService } from '@licensing/proto/catalog'
import type { Snapshots } from './plans/snapshots.ts'

/** What handlers need; made once, in main.ts. */
export interface LicensingDeps {
  sql: Database
  /** Where lists are read: a pool whose every statement is planned for its own values. */
  lists: Database
  snapshots: Snapshots
  outbox: Outbox
  catalog: ServiceClient<typeof CatalogService>
  log: Logger
}
