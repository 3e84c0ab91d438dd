import type { Change } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Turns } from '@licensing/grpc/turns'
import type { Logger } from '@licensing/process/log'
import type { LicensingService } from '@licensing/proto/licensing'
import type { RootKeyService } from '@licensing/proto/root-keys'
import type { KeyUse } from './api-keys/key-use.ts'

/** What the handlers need. */
export interface CatalogDependencies {
  sql: Database
  /** One connection, for look-ups of keys that may not exist. */
  lookups: Database
  change: Change
  /** Changes of definitions and plans wait here by application, those of applications and API keys by account. */
  queue: Turns
  licensing: Licensing
  rootKeys: RootKeys
  keyUse: KeyUse
  /** An address for alerts is to be confirmed: its mail goes out soon. */
  confirmationRequested: () => void
  log: Logger
}

interface Licensing {
  calls: Pick<ServiceClient<typeof LicensingService>, 'syncPlans' | 'archivePlan' | 'countActiveLicences'>
}

interface RootKeys {
  calls: Pick<ServiceClient<typeof RootKeyService>, 'getRootKeys'>
}
