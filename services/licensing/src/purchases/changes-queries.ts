import type { Sql } from '@licensing/database/connect'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import { lockedColumns } from './purchased-licence.ts'
import type { LockedLicence } from './purchased-licence.ts'

export async function insertLicences(sql: Sql, licences: LockedLicence[]): Promise<void> {
  await insertRows(sql, 'licences', licences)
}

const fixed: readonly string[] = ['id', 'key', 'account_id', 'application_id', 'created_at']
const written = lockedColumns.filter((name) => !fixed.includes(name))
const assignments = written.map((name) => `${name} = n.${name}`).join(', ')

/** Writes licences that the transaction has locked. */
export async function updateLicences(sql: Sql, licences: LockedLicence[]): Promise<void> {
  if (licences.length === 0) return
  await sql`
    update licences l set ${sql.unsafe(assignments)} from ${rowsOf(sql, 'licences', licences)} n where l.id = n.id`
}
