import type { Database } from '@licensing/database/connect'
import type { Patience } from '@licensing/database/patience'
import type { Outbox } from '@licensing/events/outbox'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Logger } from '@licensing/process/log'
import type { CatalogService } from '@licensing/proto/catalog'
import type { Snapshots } from './plans/snapshots.ts'

/** What the handlers need. */
export interface LicensingDependencies {
  sql: Database
  /** Where lists are read: a pool whose every statement is planned for its own values. */
  lists: Database
  snapshots: Snapshots
  outbox: Outbox
  /** For what may meet the locks of an archive. */
  patience: Patience
  catalog: ServiceClient<typeof CatalogService>
  /** Whether no process of catalog accepts a connection. */
  isCatalogDown: () => Promise<boolean>
  log: Logger
}
