import { createTestDatabase } from '@licensing/test-support/database'
import { oldBytesOf } from '@licensing/test-support/old-generation'
import { expect, test } from 'vitest'

// Tests the patch of docs/decisions/0003. Without it 1,000 bytes stay in memory for each statement, 5,500 for a transaction
// and 2,500 for a reservation.
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
])('%s can be collected by the garbage collector when it has ended', async ([, operation]) => {
  await using database = await createTestDatabase()
  const given = `
    import { connect } from './connect.ts'
    import { sendAlong, transaction } from './transaction.ts'
    const sql = connect('${database.url}', { name: 'garbage', max: 4 })
    const operation = () => ${operation}
    const end = () => sql.end()`
  expect(await oldBytesOf({ given, from: import.meta.dirname, times: 3_000 })).toBeLessThan(400)
})
