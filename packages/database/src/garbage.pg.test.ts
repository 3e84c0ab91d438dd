import { createTestDatabase } from '@licensing/test-support/database'
import { oldBytesOf } from '@licensing/test-support/old-generation'
import { expect, test } from 'vitest'

// See docs/decisions/0003. Without the patch: 1,000 bytes for a statement, 5,500 for a transaction, 2,500 for a reservation.
test.for([
  ['a statement', 'sql`select ${1}::int`'],
  ['a transaction', 'transaction(sql, async (tx) => { await tx`select ${1}::int` })'],
  [
    'a transaction with a statement that is sent along',
    'transaction(sql, (tx) => sendAlong(tx, tx`select ${1}::int`))',
  ],
  [
    'a reservation',
    'sql.reserve().then((connection) => connection`select ${1}::int`.then(() => connection.release()))',
  ],
])('%s is garbage as soon as it has ended', async ([, operation]) => {
  await using database = await createTestDatabase()
  const given = `
    import { connect } from './connect.ts'
    import { sendAlong, transaction } from './transaction.ts'
    const sql = connect('${database.url}', { name: 'garbage', max: 4 })
    const operation = () => ${operation}
    const end = () => sql.end()`
  expect(await oldBytesOf({ given, from: import.meta.dirname, times: 3_000 })).toBeLessThan(400)
})
