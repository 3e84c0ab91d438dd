import { cellTables } from '@licensing/moves/account-tables'
import { closedSets } from '@licensing/proto/closed-sets'
import { listedValues, unlistedTables } from '@licensing/test-support/listed-values'
import { unusedInDatabase } from '@licensing/test-support/unused-in-database'
import { expect, test } from 'vitest'
import { catalogOfFile } from '../test/catalog.ts'
import { accountTables, otherTables } from './tables.ts'

const catalog = await catalogOfFile()
const { sql } = catalog

test('the values in check constraints of the database are those of the closed sets', async () => {
  expect(await listedValues((statement) => sql.unsafe(statement))).toEqual({
    api_keys_scopes_check: closedSets.scope.toSorted(),
    entitlement_keys_kind_check: closedSets.entitlementKind.toSorted(),
    members_owner: ['owner'],
    members_role_check: closedSets.memberRole.toSorted(),
    plans_status_check: closedSets.planStatus.toSorted(),
  })
})

test('every table and every column is in use', async () => {
  expect(await unusedInDatabase('catalog', (statement) => sql.unsafe(statement))).toEqual([])
})

test('each table moves with the accounts or belongs to the cell', async () => {
  const listed = [...accountTables.map(({ table }) => table), ...cellTables, ...otherTables]
  expect(await unlistedTables((statement) => sql.unsafe(statement), listed)).toEqual([])
})
