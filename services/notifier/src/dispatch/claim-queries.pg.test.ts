import { randomUUID } from 'node:crypto'
import type { Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { givenDatabase } from '../../test/database.ts'
import { reportUnreadable } from '../alerts/endpoint-alerts.ts'
import { lowerNextDueAt } from '../deliveries/delivery-queries.ts'
import { makePartitions } from '../events/event-partitions.ts'
import { findOldestDue, restoreWaitingEndpoints } from '../maintenance/maintenance-queries.ts'
import {
  claimDue,
  claimOf,
  findDueEndpoints,
  freeExpiredClaims,
  releaseClaims,
  updateNextDueAt,
} from './claim-queries.ts'

let database: Awaited<ReturnType<typeof givenDatabase>>
let sql: (typeof database)['sql']
beforeEach(async () => {
  database = await givenDatabase()
  sql = database.sql
  await makePartitions(sql, new Date())
})
afterEach(() => database[Symbol.asyncDispose]())

const manyRows = Number(process.env['MANY_ROWS'] ?? 20_000)

async function givenDue(endpoint: string, count: number, account = 'acct_1'): Promise<void> {
  await sql`
    insert into endpoints (id, account_id, application_id, url, encrypted_secret, created_at)
    values (${endpoint}, ${account}, 'app_1', 'https://example.com/', '', now()) on conflict do nothing`
  await sql`
    insert into events (recorded_at, account_id, sequence, application_id, id, body)
    values (date_trunc('day', now()), 'acct_1', 1, 'app_1', 'evt_1', '{}') on conflict do nothing`
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, retry_at, due_at)
    select ${endpoint} || '_' || lpad(i::text, 8, '0'), 'acct_1', 'app_1', ${endpoint}, 'evt_1', 'licence.created',
      date_trunc('day', now()), 1, now(), now() - interval '1 hour', now() - interval '1 hour' + i * interval '1 microsecond'
    from generate_series(1, ${count}::int) as i`
  await lowerNextDueAt(sql, [endpoint], new Date(0))
}

const keptSince = new Date(0)

function claim(options: { except?: string[]; capacity?: number; claimId?: string; leaseMs?: number } = {}) {
  const { except = [], capacity = 16, claimId = randomUUID(), leaseMs = 12_000 } = options
  const full = { accounts: [], endpoints: except }
  const request = { now: new Date(), full, afterAccount: '', limit: 1_000, claimId, leaseMs, keptSince }
  return claimDue(sql, { ...request, capacity: () => capacity })
}

async function isAnyDue(except: string[] = []): Promise<boolean> {
  const full = { accounts: [], endpoints: except }
  return (await findDueEndpoints(sql, { now: new Date(), full, afterAccount: '' })).length > 0
}

/** Counts the rows of deliveries that a query reads, with or without an index. Rolls the query back. */
async function rowsReadBy(query: (tx: Transaction) => Promise<unknown>): Promise<number> {
  const connection = await sql.reserve()
  const read = async () => {
    const [row] = await connection<{ read: number }[]>`
      select (seq_tup_read + idx_tup_fetch)::int as read from pg_stat_xact_user_tables where relname = 'deliveries'`
    return row!.read
  }
  try {
    await connection`begin`
    const before = await read()
    await query(connection)
    return (await read()) - before
  } finally {
    await connection`rollback`
    connection.release()
  }
}

test('the cost of a claim does not depend on how many deliveries of a dead endpoint are due', async () => {
  await givenDue('whe_dead', manyRows)
  await givenDue('whe_well', 20)
  for (const isAnalysed of [false, true]) {
    if (isAnalysed) await sql`analyze`
    const wanted = [
      { id: 'whe_dead', quota: 16 },
      { id: 'whe_well', quota: 16 },
    ]
    const claimAll = async (tx: Transaction) => {
      const claimed = await claimOf(tx, wanted, {
        now: new Date(),
        claimId: randomUUID(),
        leaseMs: 12_000,
        keptSince,
      })
      expect(claimed).toHaveLength(32)
    }
    expect(await rowsReadBy(claimAll)).toBeLessThan(200)
    expect(await rowsReadBy((tx) => updateNextDueAt(tx, ['whe_dead', 'whe_well']))).toBeLessThan(10)
    expect(await rowsReadBy((tx) => restoreWaitingEndpoints(tx))).toBeLessThan(10)
    expect(await rowsReadBy((tx) => findOldestDue(tx, new Date()))).toBeLessThan(10)
  }
})

test('while a transaction stays open, the index entries of claimed deliveries are not read again', async () => {
  await givenDue('whe_1', 2_000)
  const open = await sql.reserve()
  try {
    await open`begin isolation level repeatable read`
    await open`select count(*) from deliveries`
    while ((await claim({ capacity: 500 })).claimed.length > 0);
    const now = new Date()
    await sql`update deliveries set claim_id = null, claimed_until = null, retry_at = null, due_at = null`
    await sql`update deliveries set due_at = ${now} where id = 'whe_1_00000001'`
    await lowerNextDueAt(sql, ['whe_1'], now)
    await transaction(sql, async (tx) => {
      const entriesRead = async () => {
        const [index] = await tx<{ read: number }[]>`
          select pg_stat_get_xact_tuples_returned('deliveries_waiting'::regclass)::int as read`
        return index!.read
      }
      const before = await entriesRead()
      const wanted = [{ id: 'whe_1', quota: 16 }]
      const claimed = await claimOf(tx, wanted, { now, claimId: randomUUID(), leaseMs: 12_000, keptSince })
      expect(claimed.map(({ id }) => id)).toEqual(['whe_1_00000001'])
      await updateNextDueAt(tx, ['whe_1'])
      const read = (await entriesRead()) - before
      expect(read).toBeGreaterThan(0)
      expect(read).toBeLessThan(20)
    })
  } finally {
    await open`rollback`
    open.release()
  }
})

test('each delivery is claimed once, however many processes claim at the same time', async () => {
  for (let i = 0; i < 10; i += 1) await givenDue(`whe_${i}`, 100)
  const ids: string[] = []
  const worker = async () => {
    while (await isAnyDue()) {
      const { claimed } = await claim({ capacity: 7 })
      ids.push(...claimed.map(({ id }) => id))
    }
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  expect(ids).toHaveLength(1_000)
  expect(new Set(ids).size).toBe(1_000)
})

test('an endpoint is looked at again when a claim of its deliveries is released or its lease ends', async () => {
  await givenDue('whe_1', 10)
  const claimId = randomUUID()
  const { claimed } = await claim({ claimId, leaseMs: 1 })
  expect(claimed).toHaveLength(10)
  expect(await isAnyDue()).toBe(false)
  await sql.begin((tx) => releaseClaims(tx, [{ id: claimed[0]!.id, claimId }]))
  expect(await isAnyDue()).toBe(true)
  const again = await claim()
  expect(again.claimed.map(({ id }) => id)).toEqual([claimed[0]!.id])
  expect(await sql.begin((tx) => freeExpiredClaims(tx, 100))).toBe(9)
  expect((await claim()).claimed).toHaveLength(9)
})

test('a delivery that starts to wait while its endpoint is looked at is found', async () => {
  await givenDue('whe_1', 1)
  expect((await claim()).claimed).toHaveLength(1)
  await lowerNextDueAt(sql, ['whe_1'], new Date(0))
  const claiming = await sql.reserve()
  await claiming`begin`
  await updateNextDueAt(claiming, ['whe_1'])
  // The claimer has not seen this delivery, and is about to record that none waits.
  const waiting = sql.begin(async (tx) => {
    await tx`
      insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
        created_at, retry_at, due_at)
      values ('dlv_late', 'acct_1', 'app_1', 'whe_1', 'evt_1', 'licence.created', date_trunc('day', now()), 1,
        now(), now(), now())`
    await lowerNextDueAt(tx, ['whe_1'], new Date())
  })
  await claiming`commit`
  claiming.release()
  await waiting
  expect((await claim()).claimed.map(({ id }) => id)).toEqual(['dlv_late'])
})

test('endpoints that are missing from waiting_endpoints are found again', async () => {
  for (let i = 0; i < 5; i += 1) await givenDue(`whe_${i}`, 3)
  await sql`delete from waiting_endpoints where endpoint_id <> 'whe_3'`
  expect(await sql.begin((tx) => restoreWaitingEndpoints(tx))).toBe(4)
  expect(await sql.begin((tx) => restoreWaitingEndpoints(tx))).toBe(0)
  expect((await claim()).claimed).toHaveLength(15)
})

test('an endpoint is found also if another one is left out', async () => {
  await givenDue('whe_dead', 50)
  await givenDue('whe_well', 20)
  const { claimed } = await claim({ except: ['whe_dead'] })
  expect(claimed.map((row) => row.endpoint_id)).toEqual(Array<string>(16).fill('whe_well'))
  await sql`update endpoints set status = 'disabled', disabled_at = now(), disabled_reason = 'deleted'
    where id = 'whe_well'`
  expect((await claim({ except: ['whe_dead'] })).claimed).toEqual([])
  expect(await isAnyDue(['whe_dead'])).toBe(false)
})

test('accounts take turns, however many endpoints and deliveries of others were due earlier', async () => {
  for (let i = 0; i < 70; i += 1) await givenDue(`whe_large_${i}`, 2, 'acct_large')
  for (let i = 0; i < 70; i += 1) await givenDue(`whe_${i}`, 2, `acct_${String(i).padStart(2, '0')}`)
  const turns: string[][] = []
  for (let afterAccount = ''; turns.length < 2; afterAccount = turns.at(-1)!.at(-1)!) {
    const full = { accounts: [], endpoints: [] }
    const due = await findDueEndpoints(sql, { now: new Date(), full, afterAccount })
    turns.push(due.map((row) => row.account_id))
  }
  // There are 71 accounts: the second turn begins with the accounts that had none in the first.
  expect(turns.map((turn) => turn.length)).toEqual([64, 64])
  expect(new Set(turns[0]).size).toBe(64)
  expect(new Set(turns.flat()).size).toBe(71)

  // An account that is left out does not reduce the turn of another, even if all others have had theirs.
  const others = turns.flat().filter((account) => account !== 'acct_00')
  const full = { accounts: [...new Set(others)], endpoints: [] }
  const due = await findDueEndpoints(sql, { now: new Date(), full, afterAccount: 'acct_00' })
  expect(due).toEqual([{ id: 'whe_0', account_id: 'acct_00' }])
})

test('if no replica sends the due deliveries, the vendor of an unreadable secret is alerted once for each secret', async () => {
  await givenDue('whe_stuck', 1)
  await givenDue('whe_sent', 1)
  await givenDue('whe_rotated', 1)
  // Another replica has just claimed the deliveries that were due before.
  await sql`update waiting_endpoints set next_due_at = now() where endpoint_id = 'whe_sent'`
  await sql`update endpoints set generation = 2 where id = 'whe_rotated'`
  const found = ['whe_stuck', 'whe_sent', 'whe_rotated', 'whe_gone'].map((id) => ({ id, generation: 1n }))
  const report = (versions: typeof found) =>
    sql.begin((tx) => reportUnreadable(tx, versions, { dueBefore: new Date(Date.now() - 5_000), limit: 10 }))
  const alerted = async () => {
    const rows = await sql<{ id: string }[]>`select endpoint_id as id from alerts order by endpoint_id`
    return rows.map(({ id }) => id)
  }
  // Two replicas report at the same time.
  expect((await Promise.all([report(found), report(found)])).toSorted((a, b) => a - b)).toEqual([0, 1])
  expect(await alerted()).toEqual(['whe_stuck'])
  await sql`update alerts set completed_at = now()`
  expect(await report([{ id: 'whe_rotated', generation: 2n }])).toBe(1)
  await sql`update endpoints set generation = 2 where id = 'whe_stuck'`
  expect(await report([{ id: 'whe_stuck', generation: 2n }])).toBe(1)
  expect(await alerted()).toEqual(['whe_rotated', 'whe_stuck', 'whe_stuck'])
})
