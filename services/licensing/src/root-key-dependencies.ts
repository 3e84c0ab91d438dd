import type { Database } from '@licensing/database/connect'
import type { EncryptionKeys } from '@licensing/database/encryption'

/** What the handlers of root keys need. */
export interface RootKeyDependencies {
  sql: Database
  /** Private root keys are encrypted at rest. */
  encryption: EncryptionKeys
}
