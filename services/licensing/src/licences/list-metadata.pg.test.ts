import type { ListLicencesRequest } from '@licensing/proto/licensing'
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { firstPage, givenLicence, givenPlan, refusal, verbOn } from '../../test/makers.ts'
import { findLicencePage } from './list-queries.ts'
import type { FoundLicences, LicenceFilter } from './list-queries.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

type Metadata = Record<string, string>

let applications = 0
const freshApplication = (): Harness => {
  applications += 1
  return { ...harness, applicationId: `app_${applications}` }
}

async function list(within: Harness, entries: Metadata, more: Partial<ListLicencesRequest> = {}) {
  const { accountId, applicationId } = within
  const request = { accountId, applicationId, ...firstPage, neverSeen: false, ...more }
  return (await harness.licensing.listLicences({ ...request, metadata: { entries } })).licences.map(
    ({ id }) => id,
  )
}

test('a licence is found by exact pairs of its metadata, as they are now', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const long = '😀'.repeat(500)
  const licence = await givenLicence(within, {
    planId: plan.id,
    metadata: { team: 'a b', region: 'eu', long, empty: '' },
  })
  const found: Metadata[] = [
    { team: 'a b' },
    { long },
    { empty: '' },
    { team: 'a b', region: 'eu', long },
    {},
  ]
  for (const pairs of found) expect(await list(within, pairs)).toEqual([licence.id])
  const others: Metadata[] = [
    { team: 'a' },
    { team: 'A b' },
    { 'team.a': 'b' },
    { region: '' },
    { team: 'a b', region: 'us' },
    { unknown: 'x' },
  ]
  for (const pairs of others) expect(await list(within, pairs)).toEqual([])
  expect(await list(freshApplication(), { team: 'a b' })).toEqual([])
  expect(await list({ ...within, accountId: 'acct_other' }, { team: 'a b' })).toEqual([])

  const change = { set: { team: 'c', region: 'eu' }, remove: ['long'], clear: false }
  const request = { ...verbOn(harness, licence), neverExpires: false }
  await harness.licensing.updateLicence({ ...request, metadata: change })
  for (const pairs of [{ team: 'c' }, { region: 'eu' }])
    expect(await list(within, pairs)).toEqual([licence.id])
  for (const pairs of [{ team: 'a b' }, { long }]) expect(await list(within, pairs)).toEqual([])
  await harness.licensing.updateLicence({ ...request, metadata: { set: {}, remove: [], clear: true } })
  expect(await list(within, { region: 'eu' })).toEqual([])
  expect(await harness.sql`select 1 from licence_metadata where licence_id = ${licence.id}`).toHaveLength(0)
})

test('more than three pairs, and a pair that no licence can have, are refused', async () => {
  const pointerOf = async (pairs: Metadata) => {
    const { code, errors } = await refusal(list(harness, pairs))
    return [code, errors[0]?.pointer]
  }
  expect(await pointerOf({ a: '', b: '', c: '', d: '' })).toEqual(['validation_failed', '/metadata'])
  expect(await pointerOf({ 'a b': '1' })).toEqual(['validation_failed', '/metadata/a b'])
  expect(await pointerOf({ a: '\0' })).toEqual(['validation_failed', '/metadata/a'])
})

test('a licence whose entries look like the requested pairs in the index is not found', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const bit = (value: string) =>
    createHash('sha256').update(`${within.applicationId} size ${value}`).digest()[0]! % 64
  const values = Array.from({ length: 1_000 }, (_, n) => String(n))
  const alike = values.filter((value) => bit(value) === bit('wanted'))
  expect(alike.length).toBeGreaterThan(3)
  const given = (size: string) => givenLicence(within, { planId: plan.id, metadata: { team: 'a', size } })
  const wanted = await given('wanted')
  for (const size of alike.slice(0, 3)) await given(size)
  expect(await list(within, { team: 'a', size: 'wanted' })).toEqual([wanted.id])
  expect(await list(within, { team: 'a', size: alike[3]! })).toEqual([])
})

/** Licences of two plans and statuses, with metadata, of which some are trials. The attributes are independent. */
async function givenVaried({ applicationId, accountId }: Harness, count: number) {
  const licences = Array.from({ length: count }, (_, n) => ({
    id: `lic_${applicationId}_${String(n).padStart(4, '0')}`,
    plan_id: n % 3 === 0 ? 'pln_1' : 'pln_2',
    status: n % 4 < 2 ? 'active' : 'suspended',
    metadata: { team: `t${n % 2}`, region: `r${n % 5 === 0}`, size: `s${n % 7 < 4}` },
    trial: n % 8 < 3,
    host: n % 9 < 5 ? 'host.example.com' : 'else.example.com',
  }))
  await harness.sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, snapshot_id, metadata, trial)
    select id, id, ${accountId}, ${applicationId}, plan_id, status, 'customer', 'snapshot', metadata, trial
    from jsonb_to_recordset(${JSON.stringify(licences)}::text::jsonb)
      as one (id text, plan_id text, status text, metadata jsonb, trial boolean)`
  await harness.sql`
    insert into licence_hosts (application_id, host, licence_id) select ${applicationId}, host, id
    from jsonb_to_recordset(${JSON.stringify(licences)}::text::jsonb) as one (id text, host text)`
  return licences.toReversed()
}

test('combined with other filters, pages contain each matching licence once, in order', async () => {
  const within = freshApplication()
  const licences = await givenVaried(within, 60)
  type Varied = (typeof licences)[number]
  const has = (pairs: Metadata) => ({
    filter: { metadata: pairs },
    matches: ({ metadata }: Varied) =>
      Object.entries(pairs).every(([name, value]) => metadata[name as keyof Varied['metadata']] === value),
  })
  const choices: { filter: Partial<LicenceFilter>; matches: (one: Varied) => boolean }[][] = [
    [
      has({ team: 't1' }),
      has({ team: 't0', size: 'strue' }),
      has({ team: 't0', size: 'sfalse', region: 'rtrue' }),
    ],
    [
      { filter: { trial: true }, matches: ({ trial }) => trial },
      { filter: { trial: false }, matches: ({ trial }) => !trial },
    ],
    [{ filter: { status: 'suspended' }, matches: ({ status }) => status === 'suspended' }],
    [{ filter: { planId: 'pln_2' }, matches: (one) => one.plan_id === 'pln_2' }],
    [{ filter: { domain: 'host.example.com' }, matches: ({ host }) => host === 'host.example.com' }],
  ]
  const all = choices.reduce(
    (combined, filters) => combined.flatMap((some) => [some, ...filters.map((one) => [...some, one])]),
    [[]] as (typeof choices)[number][],
  )
  expect(all).toHaveLength(96)
  const { accountId, applicationId } = within
  for (const chosen of all) {
    const filter = Object.assign({}, ...chosen.map((one) => one.filter)) as Partial<LicenceFilter>
    const base = { accountId, applicationId, limit: 3, neverSeen: false, mayEndEarly: true, ...filter }
    const found: string[] = []
    for (let beforeId: string | undefined = ''; beforeId !== undefined;) {
      const page: LicenceFilter = { ...base, beforeId }
      const { rows, lookedUntil }: FoundLicences = await findLicencePage(harness.deps.lists, page, [1, 4])
      found.push(...rows.map(({ id }) => id))
      beforeId = rows.length === page.limit ? found.at(-1) : lookedUntil
    }
    const expected = licences.filter((one) => chosen.every(({ matches }) => matches(one)))
    expect(found, JSON.stringify(filter)).toEqual(expected.map(({ id }) => id))
  }
  expect(await list(within, { team: 't1' }, { trial: true, limit: 200 })).toEqual(
    licences.filter((one) => one.trial && one.metadata.team === 't1').map(({ id }) => id),
  )
})
