import type { PlanCopy } from '@licensing/proto/catalog'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { inserts } from '../src/licences/issue-queries.ts'
import { licenceFields } from '../src/lifecycle/licence-fields.ts'
import type { initialStatus } from '../src/lifecycle/licence.ts'
import { lockedColumns } from '../src/purchases/purchased-licence.ts'
import { forFile, startHarness } from './harness.ts'

const harness = await forFile(startHarness)

const atInsert = { created_at: 'the time of the insert', updated_at: 'the time of the insert' }
const notYet = {
  seen: 'no product has called yet',
  migrated_at: 'its legacy key has not been exchanged yet',
  customer_sessions_since: 'no session of its customer was ended yet',
}
const active = {
  status_reason: 'a new licence is active',
  hold: 'nothing holds a new licence',
  purchase: 'a new licence is paid, or needs no payment',
  reactivated_at: 'no vendor has reactivated it yet',
}
const noTrial = { trial: 'a product starts a trial', trial_limit: 'a product starts a trial' }
const noPurchase = {
  governed_by: 'it has no purchase yet',
  latest_event_at: 'it has no purchase yet',
}

const trialColumns = insertedIn('trials/trial-queries.ts', 'licences')
const notOfTrial = licenceFields.columns.filter((column) => !trialColumns.includes(column))

/** The columns of each insert into licences, and the columns that it leaves to their defaults, each with the reason. */
const inserted: Record<string, { written: readonly string[]; leftOut: Record<string, string> }> = {
  issued: {
    written: [...inserts.issued.columns, 'status', 'snapshot_id'],
    leftOut: {
      ...notYet,
      ...active,
      ...noTrial,
      ...atInsert,
      ...noPurchase,
      legacy_key: 'it was not imported',
    },
  },
  imported: {
    written: [...inserts.imported.columns, 'status', 'snapshot_id'],
    leftOut: {
      ...notYet,
      ...active,
      ...noTrial,
      ...atInsert,
      ...noPurchase,
      idempotency_key: 'the legacy key is its key',
      idempotency_hash: 'the legacy key is its key',
    },
  },
  bought: {
    written: lockedColumns,
    leftOut: {
      ...notYet,
      idempotency_key: 'the payment is its key',
      idempotency_hash: 'the payment is its key',
      legacy_key: 'it was not imported',
    },
  },
  'on trial': {
    written: trialColumns,
    leftOut: {
      ...notYet,
      ...active,
      ...atInsert,
      ...noPurchase,
      ...Object.fromEntries(notOfTrial.map((column) => [column, 'no vendor gives it'])),
      idempotency_key: 'the fingerprint is its key',
      idempotency_hash: 'the fingerprint is its key',
      legacy_key: 'it was not imported',
    },
  },
} satisfies Record<keyof typeof initialStatus, unknown>

/** The columns of the insert into a table in a file. */
function insertedIn(file: string, table: string): string[] {
  const text = readFileSync(new URL(`../src/${file}`, import.meta.url), 'utf8')
  const [, list] = new RegExp(`insert into ${table}(?: as l)? \\(([^)]+)\\)`).exec(text)!
  return list!.split(',').map((name) => name.trim())
}

async function columnsOf(table: string): Promise<string[]> {
  const rows = await harness.sql<{ name: string }[]>`
    select column_name as name from information_schema.columns
    where table_schema = current_schema() and table_name = ${table}`
  return rows.map((row) => row.name).toSorted()
}

test.each(Object.entries(inserted))(
  'a licence that is %s is inserted with every column, or the reason why not',
  async (_, { written, leftOut }) => {
    expect([...written, ...Object.keys(leftOut)].toSorted()).toEqual(await columnsOf('licences'))
  },
)

/** The column that stores each field of a plan copy. */
const kept: Record<Exclude<keyof PlanCopy, '$typeName' | '$unknown'>, string> = {
  id: 'plans.id',
  accountId: 'plans.account_id',
  applicationId: 'plans.application_id',
  status: 'plans.status',
  version: 'plans.version',
  epoch: 'plans.epoch',
  entitlements: 'plans.entitlements',
  archivedBy: 'licence_history.actor',
  code: 'plans.code',
  trialDays: 'plans.trial_days',
  expiringNoticeDays: 'plans.expiring_notice_days',
  archiveVersion: 'plan_archives.archive_version',
}

test('each field of a plan copy is stored, and updated from a newer copy', async () => {
  const ofFields = Object.values(kept)
    .filter((place) => place.startsWith('plans.'))
    .map((place) => place.slice('plans.'.length))
  // A hash of the entitlements.
  const ofPlans = [...ofFields, 'snapshot_id'].toSorted()
  // An update of `expiring_notice_days` sets it.
  expect(await columnsOf('plans')).toEqual([...ofPlans, 'notice_raised_at'].toSorted())
  const file = 'plans/plan-queries.ts'
  expect(insertedIn(file, 'plans').toSorted()).toEqual(ofPlans)
  const text = readFileSync(new URL(`../src/${file}`, import.meta.url), 'utf8')
  const [, updates = ''] = /on conflict \(id\) do update set([^]*?)where \(plans\.epoch/.exec(text) ?? []
  const fixed = ['id', 'account_id', 'application_id']
  expect([...updates.matchAll(/(\w+) = excluded\.\1/g)].map(([, name]) => String(name)).toSorted()).toEqual(
    ofPlans.filter((name) => !fixed.includes(name)),
  )
})
