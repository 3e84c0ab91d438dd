import type { Database } from '@licensing/database/connect'
import type { Outbox } from '@licensing/events/outbox'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Logger } from '@licensing/process/log'
import type { LicensingService } from '@licensing/proto/licensing'
import type { KeyUse } from './api-keys/key-use.ts'
import type { Turns } from './applications/turns.ts'

/** What the handlers need, made in main.ts. */
export interface CatalogDeps {
  sql: Database
  outbox: Outbox
  /** Changes of definitions and plans, by application. */
  changes: Turns
  licensing: Licensing
  keyUse: KeyUse
  log: Logger
}

interface Licensing {
  calls: Pick<ServiceClient<typeof LicensingService>, 'syncPlans' | 'archivePlan' | 'countActiveLicences'>
}
