import type { Database } from '@licensing/database/connect'
import type { Patience } from '@licensing/database/patience'
import type { EncryptionKeys } from '@licensing/database/encryption'
import type { Logger } from '@licensing/process/log'
import type { CallHome } from './call-homes/call-home-queries.ts'
import type { Lookups } from './activations/lookups.ts'
import type { PublishedKeys } from './signing-keys/signed-key-sets.ts'
import type { SigningKeys } from './signing-keys/signing-keys.ts'
import type { Snapshots } from './plans/snapshots.ts'
import type { TokenSettings } from './activations/token.ts'

/** What the products’ handlers need. */
export interface ProductDependencies {
  sql: Database
  log: Logger
  lookups: Lookups
  /** For what may meet the locks of an archive. */
  patience: Patience
  keys: SigningKeys
  /** What `jwks.json` answers. */
  publishedKeys: (applicationId: string) => Promise<PublishedKeys>
  encryption: EncryptionKeys
  snapshots: Snapshots
  tokens: TokenSettings
  /**
   * Resolves when the call is recorded. Calls that come together are written together.
   *
   * @returns whether the activation is still there
   */
  callHome: (call: CallHome) => Promise<boolean>
  /** Lets another purchase that stands take over a licence whose own has ended. @returns whether one did */
  takeOver: (licenceId: string) => Promise<boolean>
  now: () => Date
}
