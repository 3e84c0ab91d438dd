import { connect } from '@licensing/database/connect'
import type { ConnectOptions, Database } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { notifierMigrations } from '../src/tables.ts'

/** A migrated database without a notifier. */
export async function givenDatabase(
  options: Partial<ConnectOptions> = {},
): Promise<{ url: string; sql: Database } & AsyncDisposable> {
  await using started = new AsyncDisposableStack()
  const { url } = started.use(await createTestDatabase())
  const sql = connect(url, { name: 'test', ...options })
  started.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const running = started.move()
  return { url, sql, [Symbol.asyncDispose]: () => running.disposeAsync() }
}
