import type { Change } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
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
  change: Change
  catalog: ServiceClient<typeof CatalogService>
  /** Whether no process of catalog accepts a connection. */
  isCatalogDown: () => Promise<boolean>
  log: Logger
}
