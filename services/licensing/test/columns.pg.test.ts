import type { PlanCopy } from '@licensing/proto/catalog'
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { forFile, startHarness } from './harness.ts'

const harness = await forFile(startHarness)

const atInsert = { created_at: 'the time of the insert', updated_at: 'the time of the insert' }
const always = {
  status_reason: 'a new licence is active',
  hold: 'nothing holds a new licence',
  purchase: 'a new licence is paid, or needs no payment',
  seen: 'no product has called yet',
  migrated_at: 'its legacy key has not been exchanged yet',
  trial: 'a product starts a trial',
  trial_limit: 'a product starts a trial',
  reactivated_at: 'no vendor has reactivated it yet',
}
const { trial: _trial, trial_limit: _limit, ...otherThanTrial } = always
const noPurchase = {
  governed_by: 'it has no purchase yet',
  latest_event_at: 'it has no purchase yet',
  paid_updates_until: 'it has no purchase yet',
}

/** The columns that an insert into licences leaves to their defaults, each with the reason. */
const leftOut: Record<string, Record<string, string>> = {
  'licences/issue-queries.ts': { ...always, ...atInsert, ...noPurchase, legacy_key: 'it was not imported' },
  'licences/import-queries.ts': {
    ...always,
    ...atInsert,
    ...noPurchase,
    idempotency_key: 'the legacy key is its key',
    idempotency_hash: 'the legacy key is its key',
  },
  'purchases/changes-queries.ts': {
    ...always,
    domains: 'a sale names none',
    max_activations: 'a sale names none',
    max_seats: 'a sale names none',
    max_concurrent: 'a sale names none',
    lease_minutes: 'a sale names none',
    idempotency_key: 'the payment is its key',
    idempotency_hash: 'the payment is its key',
    legacy_key: 'it was not imported',
  },
  'trials/trial-queries.ts': {
    ...otherThanTrial,
    ...atInsert,
    ...noPurchase,
    domains: 'a trial has none',
    max_seats: 'a trial has none',
    max_concurrent: 'a trial has none',
    lease_minutes: 'a trial has none',
    idempotency_key: 'the fingerprint is its key',
    idempotency_hash: 'the fingerprint is its key',
    legacy_key: 'it was not imported',
    metadata: 'a product gives none',
    updates_until: 'it has no limit',
  },
}

/** The columns of each insert into a table, by file. */
function inserted(table: string): Record<string, string[]> {
  const cwd = fileURLToPath(new URL('../src', import.meta.url))
  const statement = new RegExp(`insert into ${table}(?: as l)? \\(([^)]+)\\)`)
  return Object.fromEntries(
    globSync('**/*-queries.ts', { cwd }).flatMap((file) => {
      const [, list] = statement.exec(readFileSync(`${cwd}/${file}`, 'utf8')) ?? []
      return list === undefined ? [] : [[file, list.split(',').map((name) => name.trim())]]
    }),
  )
}

async function columnsOf(table: string): Promise<string[]> {
  const rows = await harness.sql<{ name: string }[]>`
    select column_name as name from information_schema.columns
    where table_schema = current_schema() and table_name = ${table}`
  return rows.map((row) => row.name).toSorted()
}

test('each insert into licences writes every column, or gives the reason why not', async () => {
  const columns = await columnsOf('licences')
  const accounted = Object.entries(inserted('licences')).map(([file, names]) => [
    file,
    [...names, ...Object.keys(leftOut[file] ?? {})].toSorted(),
  ])
  expect(Object.fromEntries(accounted)).toEqual(
    Object.fromEntries(Object.keys(leftOut).map((file) => [file, columns])),
  )
})

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
  const [[file, written] = []] = Object.entries(inserted('plans'))
  expect(written!.toSorted()).toEqual(ofPlans)
  const text = readFileSync(new URL(`../src/${file}`, import.meta.url), 'utf8')
  const [, updates = ''] = /on conflict \(id\) do update set([^]*?)where \(plans\.epoch/.exec(text) ?? []
  const fixed = ['id', 'account_id', 'application_id']
  expect([...updates.matchAll(/(\w+) = excluded\.\1/g)].map(([, name]) => String(name)).toSorted()).toEqual(
    ofPlans.filter((name) => !fixed.includes(name)),
  )
})
