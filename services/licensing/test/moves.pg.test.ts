import { fullTest } from '@licensing/test-support/drawn'
import { createChange } from '@licensing/changes/change'
import { isMoving } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import { unlistedTables } from '@licensing/test-support/listed-values'
import { cellTables } from '@licensing/moves/account-tables'
import { exportRows, importRows } from '@licensing/moves/account-row-queries'
import { fence, unfence } from '@licensing/moves/fence-queries'
import { saveMove } from '@licensing/moves/move-queries'
import type { Move } from '@licensing/moves/move-queries'
import { closedSets } from '@licensing/proto/closed-sets'
import { expect, test } from 'vitest'
import { accountTables } from '../src/tables.ts'
import { addUp } from '../src/application-days/day-queries.ts'
import { sweepExpiries } from '../src/sweeps/sweep-expiries.ts'
import { forFile, newVendor, startHarness } from './harness.ts'
import type { Harness } from './harness.ts'
import {
  detailOf,
  findWrongStatuses,
  findWrongSnapshots,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  issue,
  refusal,
  verbOn,
} from './makers.ts'
import { buy, daysAgo, inDays, unique } from './purchases.ts'

const [from, to] = [await forFile(startHarness), await forFile(startHarness)]

test('each table moves with the accounts or belongs to the cell', async () => {
  const listed = [...accountTables.map(({ table }) => table), ...cellTables]
  expect(await unlistedTables((statement) => from.sql.unsafe(statement), listed)).toEqual([])
})

const moveOf = ({ accountId, applicationId }: Harness, state: Move['state']): Move => ({
  account_id: accountId,
  application_ids: [applicationId],
  state,
  address: '',
  attempt: '',
})

/** The rows of an account as the other cell would read them, without the numbers that each database gives. */
async function rowsOf(harness: Harness): Promise<Map<string, unknown[]>> {
  const rows = new Map<string, unknown[]>()
  let cursor = ''
  do {
    const page = await exportRows(harness.sql, accountTables, moveOf(harness, 'leaving'), cursor)
    const found = (JSON.parse(page.rows) as Record<string, unknown>[]).map((row) => {
      delete row['position']
      return page.table === 'plans' ? { ...row, epoch: '0' } : row
    })
    rows.set(page.table, [...(rows.get(page.table) ?? []), ...found])
    cursor = page.next
  } while (cursor !== '')
  return rows
}

/** A vendor with rows in most tables. */
async function givenRichVendor(): Promise<Harness> {
  const vendor = newVendor(from)
  const plan = await givenPlan(vendor, { code: 'pro', trialDays: 14 })
  for (const status of closedSets.licenceStatus) await givenLicenceIn(vendor, status, plan.id)
  const floating = await givenLicence(vendor, {
    planId: plan.id,
    maxConcurrent: 3,
    metadata: { tier: 'gold' },
  })
  for (const fingerprint of ['a', 'b']) {
    const machine = { licenceKey: floating.key, fingerprint, host: 'localhost', productVersion: '1' }
    await vendor.products.activate(machine)
  }
  const { applicationId } = vendor
  await vendor.products.startTrial({
    applicationId,
    planCode: 'pro',
    fingerprint: 'c',
    host: 'localhost',
    productVersion: '1',
    address: '198.51.100.7',
    maxForAddress: 20,
  })
  await buy(vendor, {
    planId: plan.id,
    externalRef: unique('buyer'),
    orderedAt: daysAgo(3),
    endsAt: inDays(30),
  })
  for (let at = 0; at < 30; at += 1) await givenLicence(vendor, { planId: plan.id })
  return vendor
}

fullTest('the rows of an account are the same in the other cell, and what follows from them', async () => {
  const vendor = await givenRichVendor()
  const { accountId, applicationId } = vendor
  // The other cell can read secrets that this cell has encrypted.
  const encryptionKey = `${to.settings.encryptionKey},${from.settings.encryptionKey}`
  const there = { ...to, ...(await to.replica({ encryptionKey })), accountId, applicationId }
  await saveMove(from.sql, moveOf(vendor, 'leaving'))
  await fence(from.sql, accountTables, [])
  while ((await addUp(from.sql, 1_000)) > 0) {
    // Until all changes are added to their days.
  }
  await saveMove(to.sql, moveOf(vendor, 'arriving'))
  let cursor = ''
  do {
    const { next, ...page } = await exportRows(from.sql, accountTables, moveOf(vendor, 'leaving'), cursor)
    if (page.count > 0) {
      await transaction(to.sql, (tx) => importRows(tx, accountTables, moveOf(vendor, 'arriving'), page))
    }
    cursor = next
  } while (cursor !== '')
  await to.sql`delete from account_moves`
  const [before, after] = [await rowsOf(vendor), await rowsOf(there)]
  expect([...before].filter(([, rows]) => rows.length === 0).map(([table]) => table)).toEqual(
    [...after].filter(([, rows]) => rows.length === 0).map(([table]) => table),
  )
  for (const [table, rows] of before) expect([table, after.get(table)]).toEqual([table, rows])
  expect(await findWrongStatuses(to)).toEqual([])
  expect(await findWrongSnapshots(to)).toEqual({ missing: [], unused: [] })
  // The list of revocations goes on after the versions that products know.
  const versionOf = async (harness: Harness) =>
    (await harness.products.getRevocations({ applicationId })).version
  const version = await versionOf(vendor)
  await to.sql`update revocation_lists set epoch = 5000000 where application_id = ${applicationId}`
  const [plan] = await to.sql<{ id: string }[]>`select id from plans where code = 'pro'`
  const licence = await givenLicence(there, { planId: plan!.id })
  await there.licensing.revokeLicence(verbOn(there, licence))
  expect(await versionOf(there)).toBeGreaterThan(Math.max(Number(version), 5_000_000))
})

test('while an account leaves, the database refuses its writes and no others, and sweeps leave it out', async () => {
  const [leaving, staying] = [newVendor(from), newVendor(from)]
  const plans = [await givenPlan(leaving), await givenPlan(staying)] as const
  const due = await Promise.all(
    [leaving, staying].map(async (vendor, at) => {
      const licence = await givenLicence(vendor, { planId: plans[at]!.id })
      await from.sql`update licences set expires_on = now() - interval '1 minute' where id = ${licence.id}`
      return licence
    }),
  )
  await saveMove(from.sql, moveOf(leaving, 'leaving'))
  await fence(from.sql, accountTables, [])
  expect((await refusal(issue(leaving, { planId: plans[0].id }))).code).toBe('unavailable')
  await issue(staying, { planId: plans[1].id })
  await sweepExpiries({ sql: from.sql, change: createChange(from.sql) })
  const statuses = await Promise.all(
    [leaving, staying].map(async (vendor, at) => (await detailOf(vendor, due[at]!)).licence!.status),
  )
  expect(statuses).toEqual(['active', 'expired'])
  const write = from.sql`update activations set host = 'x' where account_id = ${leaving.accountId}`
  await expect(write).resolves.toHaveLength(0)
  const child = from.sql`
    insert into licence_history (licence_id, type, to_status, actor) values (${due[0]!.id}, 'changed', 'active', 'x')`
  await expect(child).rejects.toSatisfy(isMoving)
  await from.sql`delete from account_moves`
  await unfence(from.sql)
  await issue(leaving, { planId: plans[0].id })
  expect(await from.sql`select from pg_trigger where tgname = 'refuse_moving'`).toHaveLength(0)
})

test('a copy does not replace the rows of an account that is open in the cell', async () => {
  const vendor = newVendor(to)
  const plan = await givenPlan(vendor)
  const licence = await givenLicence(vendor, { planId: plan.id })
  const { accountId, applicationId } = vendor
  const arriving = { accountId, state: 'arriving', applicationIds: [applicationId], attempt: 'another run' }
  expect((await refusal(vendor.moves.changeMove(arriving))).code).toBe('conflict')
  expect((await detailOf(vendor, licence)).licence!.id).toBe(licence.id)
  expect((await vendor.moves.getMove({ accountId })).state).toBe('')
})
