import type { Database } from '@licensing/database/connect'
import type { CallHome } from './call-home-queries.ts'
import type { SigningKeys } from './signing-keys.ts'
import type { Snapshots } from '../plans/snapshots.ts'
import type { TokenSettings } from './token.ts'

/** What the products' handlers need; made once, in main.ts. */
export interface ProductDeps {
  sql: Database
  keys: SigningKeys
  snapshots: Snapshots
  tokens: TokenSettings
  /** Resolves when the call is recorded. Calls that come together are written together. */
  callHome: (call: CallHome) => Promise<void>
  now: () => Date
}
