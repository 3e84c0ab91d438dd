import type { Database } from '@licensing/database/connect'
import type { Clock } from './clock.ts'
import type { Engine } from './engine/engine.ts'
import type { EncryptionKeys } from '@licensing/database/encryption'

/** What the RPC handlers are given. */
export interface NotifierDeps {
  sql: Database
  clock: Clock
  keys: EncryptionKeys
  engine: Engine
  /** What is wrong with a URL that is to be registered, or null. */
  urlProblem: (url: string) => Promise<string | null>
}
