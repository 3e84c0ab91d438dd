import type { Metadata } from '@licensing/proto/metadata'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { drawing, drawn } from '@licensing/test-support/drawn'
import { expect, test } from 'vitest'
import type { Licence } from '@licensing/proto/licensing'
import { forFile, startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import type { Database, Sql } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { findByBeginning } from './search-queries.ts'
import { findLicencePage } from './list-queries.ts'
import type { FoundLicences, LicenceFilter } from './list-queries.ts'
import {
  firstPage,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  newest,
  refusal,
  update,
  verbOn,
  list,
  listedIds,
  atOnce,
} from '../../test/makers.ts'

const harness = await forFile(startHarness)

/** Each test has its own application, so that it lists only its own licences. */
let applications = 0
const freshApplication = (): Harness => {
  applications += 1
  return { ...harness, applicationId: `app_${applications}` }
}
const newestFirst = (...licences: Licence[]) =>
  licences
    .map((licence) => licence.id)
    .toSorted()
    .toReversed()

async function givenCallHome(licence: Licence, host: string, at: Date): Promise<void> {
  const { sql } = harness
  await sql`update licences set seen = true where id = ${licence.id}`
  await sql`
    insert into licence_activity (licence_id, application_id, last_seen_at)
    values (${licence.id}, ${licence.applicationId}, ${at})`
  await sql`
    insert into licence_hosts (application_id, host, licence_id)
    values (${licence.applicationId}, ${host}, ${licence.id})`
}

test('a list has the application’s licences, newest first, in the form of the verbs’ answers', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const first = await givenLicence(within, { planId: plan.id, domains: ['a.example.com'], maxSeats: 2 })
  const second = await givenLicence(within, { planId: plan.id })
  const elsewhere = freshApplication()
  await givenLicence(elsewhere, { planId: (await givenPlan(elsewhere)).id })
  const { licences, hasMore } = await list(within)
  expect(licences).toEqual([second, first])
  expect(hasMore).toBe(false)
  const otherTenant = { accountId: 'acct_other', applicationId: within.applicationId }
  expect(
    (await harness.licensing.listLicences({ ...otherTenant, ...firstPage, neverSeen: false })).licences,
  ).toEqual([])
})

test('while licences are made and changed, no page skips or repeats an older licence', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const stood = await atOnce(60, () => givenLicence(within, { planId: plan.id }))
  const leaving = await atOnce(30, () => givenLicence(within, { planId: plan.id }))
  const seen: string[] = []
  for (let beforeId = '', more = true; more;) {
    const [page] = await Promise.all([
      list(within, { limit: 10, beforeId, status: 'active' }),
      givenLicence(within, { planId: plan.id }),
      ...leaving.splice(0, 3).map((licence) => harness.licensing.suspendLicence(verbOn(harness, licence))),
    ])
    seen.push(...page.licences.map((licence) => licence.id))
    more = page.hasMore
    beforeId = seen.at(-1)!
  }
  expect(new Set(seen).size).toBe(seen.length)
  const standing = newestFirst(...stood)
  expect(seen.filter((id) => standing.includes(id))).toEqual(standing)
})

test('filters find licences by the whole value, hosts in any letter case, and combine', async () => {
  const within = freshApplication()
  const [plan, other] = [await givenPlan(within), await givenPlan(within)]
  const host = 'host.example.com'
  const [t1, t2] = [new Date('2030-01-01T00:00:00.500Z'), new Date('2030-01-02T00:00:00Z')]
  const restricted = await givenLicence(within, { planId: plan.id, domains: [host, '*.example.org'] })
  const seenThere = await givenLicence(within, { planId: plan.id, externalRef: 'ref' })
  const seenElsewhere = await givenLicence(within, { planId: other.id, externalRef: 'ref' })
  const suspended = await givenLicenceIn(within, 'suspended', plan.id)
  await givenCallHome(seenThere, host, t1)
  await givenCallHome(seenElsewhere, 'else.example.com', t2)

  expect(await listedIds(within, { planId: 'pln_none' })).toEqual([])
  expect(await listedIds(within, { domain: 'HOST.example.com' })).toEqual(newestFirst(restricted, seenThere))
  expect(await listedIds(within, { domain: '*.example.org' })).toEqual([restricted.id])
  expect(await listedIds(within, { domain: 'sub.example.org' })).toEqual([])
  const seenSince = timestampFromDate(t1)
  expect(await listedIds(within, { seenSince })).toEqual(newestFirst(seenThere, seenElsewhere))
  const after = timestampFromDate(new Date(t1.getTime() + 1))
  expect(await listedIds(within, { seenSince: after })).toEqual([seenElsewhere.id])
  expect(await listedIds(within, { neverSeen: true })).toEqual(newestFirst(restricted, suspended))
  const all = { status: 'active', planId: plan.id, externalRef: 'ref', domain: host, seenSince }
  expect(await listedIds(within, all)).toEqual([seenThere.id])
  expect(await listedIds(within, { domain: host, limit: 1, beforeId: seenThere.id })).toEqual([restricted.id])
})

/** Licences with independent attributes, newest first. */
async function givenVaried({ applicationId, accountId }: Harness) {
  const licences = Array.from({ length: 60 }, (_, n) => ({
    id: `lic_${applicationId}_${String(n).padStart(4, '0')}`,
    plan_id: n % 3 === 0 ? 'pln_1' : 'pln_2',
    status: n % 4 < 2 ? 'active' : 'suspended',
    external_ref: `ref-${n % 5 < 3}`,
    host: n % 7 < 4 ? 'host.example.com' : 'else.example.com',
    seen: n % 2 === 0,
    seen_at: new Date(Date.UTC(2030, 0, 1 + ((n * 5) % 11))),
    trial: n % 8 < 3,
    metadata: { team: `t${n % 2}`, region: `r${n % 5 === 0}`, size: `s${n % 7 < 4}` },
  }))
  const { sql } = harness
  const rows = sql`
    jsonb_to_recordset(${JSON.stringify(licences)}::text::jsonb) as one (id text, plan_id text, status text,
      external_ref text, host text, seen boolean, seen_at timestamptz, trial boolean, metadata jsonb)`
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, seen, snapshot_id, metadata, trial)
    select id, id, ${accountId}, ${applicationId}, plan_id, status, external_ref, seen, 'snapshot', metadata, trial
    from ${rows}`
  await sql`
    insert into licence_activity (licence_id, application_id, last_seen_at)
    select id, ${applicationId}, seen_at from ${rows} where seen`
  await sql`
    insert into licence_hosts (application_id, host, licence_id) select ${applicationId}, host, id from ${rows}`
  return licences.toReversed()
}

type Varied = Awaited<ReturnType<typeof givenVaried>>[number]
type Choice = [filter: Partial<LicenceFilter>, matches: (one: Varied) => boolean]

const pairs = (metadata: Metadata): Choice => [
  { metadata },
  (one) =>
    Object.entries(metadata).every(
      ([name, value]) => one.metadata[name as keyof Varied['metadata']] === value,
    ),
]
const since = new Date(Date.UTC(2030, 0, 5))
const choices: Choice[][] = [
  [[{ status: 'suspended' }, ({ status }) => status === 'suspended']],
  [[{ planId: 'pln_2' }, (one) => one.plan_id === 'pln_2']],
  [[{ domain: 'host.example.com' }, ({ host }) => host === 'host.example.com']],
  [[{ externalRef: 'ref-true' }, (one) => one.external_ref === 'ref-true']],
  [
    [{ seenSince: since }, (one) => one.seen && one.seen_at >= since],
    [{ neverSeen: true }, ({ seen }) => !seen],
  ],
  [
    [{ trial: true }, ({ trial }) => trial],
    [{ trial: false }, ({ trial }) => !trial],
  ],
  [
    pairs({ team: 't1' }),
    pairs({ team: 't0', size: 'strue' }),
    pairs({ team: 't0', size: 'sfalse', region: 'rtrue' }),
  ],
]
const combinations = choices.reduce<Choice[][]>(
  (combined, filters) => combined.flatMap((some) => [some, ...filters.map((one) => [...some, one])]),
  [[]],
)

test(`with any filters, pages that end early contain each matching licence once, in order (${drawing})`, async () => {
  expect(combinations).toHaveLength(576)
  const { accountId, applicationId } = freshApplication()
  const licences = await givenVaried({ ...harness, applicationId })
  for (const chosen of drawn(combinations, 70)) {
    const filter: Partial<LicenceFilter> = Object.assign({}, ...chosen.map(([filter]) => filter))
    const base = { accountId, applicationId, limit: 3, neverSeen: false, ...filter }
    const found: string[] = []
    for (let beforeId: string | undefined = ''; beforeId !== undefined;) {
      const page: LicenceFilter = { ...base, beforeId }
      const { rows, lookedUntil }: FoundLicences = await findLicencePage(harness.deps.lists, page, 4)
      found.push(...rows.map(({ id }) => id))
      beforeId = rows.length === page.limit ? found.at(-1) : lookedUntil
    }
    const expected = licences.filter((one) => chosen.every(([, matches]) => matches(one)))
    expect(found, JSON.stringify(filter)).toEqual(expected.map(({ id }) => id))
  }
  const both = { trial: true, metadata: { entries: { team: 't1' } }, limit: 200 }
  expect(await listedIds({ ...harness, applicationId }, both)).toEqual(
    licences.filter((one) => one.trial && one.metadata.team === 't1').map(({ id }) => id),
  )
})

test('a page ends early after a number of licences of its most selective filter', async () => {
  const within = freshApplication()
  const licences = await givenVaried(within)
  const { accountId, applicationId } = within
  const page = { accountId, applicationId, beforeId: '', limit: 3, neverSeen: false }
  const { lists } = harness.deps
  const host = 'host.example.com'
  const onHost = licences.filter((one) => one.host === host)
  // The host comes before the status: no licence has both.
  const none = { ...page, domain: host, status: 'revoked' }
  expect(await findLicencePage(lists, none, 7)).toEqual({ rows: [], lookedUntil: onHost[6]!.id })
  expect(await findLicencePage(lists, none)).toEqual({ rows: [] })
  // All pairs of metadata come first, the rarest before the others.
  const rare = licences.filter((one) => one.metadata.region === 'rtrue')
  const pairs = { ...none, metadata: { size: 'strue', team: 't1', region: 'rtrue' } }
  expect(await findLicencePage(lists, pairs, 5)).toEqual({ rows: [], lookedUntil: rare[4]!.id })
  // No id of another account is returned, not even as a position.
  const others = { ...page, accountId: 'acct_other', planId: 'pln_1', neverSeen: true }
  expect(await findLicencePage(lists, others, 2)).toEqual({ rows: [] })
})

test('a list and a search look at a bounded number of rows, however many there are', async () => {
  const within = freshApplication()
  const { accountId, applicationId } = within
  await harness.sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, snapshot_id, metadata)
    select 'lic_' || ${applicationId} || lpad(n::text, 6, '0'), ${applicationId} || n, ${accountId}, ${applicationId}, 'pln_1', 'active',
      'guest-' || n, 'snapshot', '{"shop": "x"}'
    from generate_series(1, 30000) as n`
  await harness.sql`
    insert into licence_activity (licence_id, application_id, last_seen_at)
    select id, application_id, now() - interval '1 day' from licences where application_id = ${applicationId}`
  await harness.sql`analyze licences, licence_metadata, licence_statuses, licence_activity`
  const base = { accountId, applicationId, beforeId: '', limit: 50, neverSeen: false }
  const { lists } = harness.deps
  const choices: Partial<LicenceFilter>[] = [
    { trial: true, status: 'active' },
    { metadata: { shop: 'x' }, trial: true },
    { domain: 'none.example', planId: 'pln_1' },
    { seenSince: new Date(), status: 'active' },
  ]
  for (const filter of choices) {
    const rows = await rowsReadBy(lists, (sql) => findLicencePage(sql, { ...base, ...filter }))
    expect(rows, JSON.stringify(filter)).toBeLessThan(30_000)
  }
  const rows = await rowsReadBy(lists, (sql) => findByBeginning(sql, within, 'gue', 20))
  expect(rows).toBeLessThan(30_000)
})

/** The rows that PostgreSQL reads from tables and indexes for a query, by its own counters. */
async function rowsReadBy(lists: Database, query: (sql: Sql) => Promise<unknown>): Promise<number> {
  return transaction(lists, async (tx) => {
    const read = async () => {
      const [row] = await tx<{ rows: number }[]>`
        select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_xact_user_tables`
      return row!.rows
    }
    const before = await read()
    await query(tx)
    return (await read()) - before
  })
}

test('filters of another account, and those of another application, find nothing', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const host = 'host.example.com'
  const licence = await givenLicence(within, { planId: plan.id, domains: [host], externalRef: 'ref' })
  const at = new Date('2030-01-01T00:00:00Z')
  await givenCallHome(licence, 'else.example.com', at)
  const filters = [
    { status: 'active' },
    { planId: plan.id },
    { planId: plan.id, status: 'active' },
    { externalRef: 'ref' },
    { domain: host },
    { domain: host, planId: plan.id },
    { seenSince: timestampFromDate(at) },
    { seenSince: timestampFromDate(at), planId: plan.id, domain: host },
  ]
  const otherTenant = { ...within, accountId: 'acct_other' }
  for (const filter of filters) {
    expect(await listedIds(within, filter)).toEqual([licence.id])
    expect(await listedIds(otherTenant, filter)).toEqual([])
    expect(await listedIds(freshApplication(), filter)).toEqual([])
  }
})

test('an unknown status is refused', async () => {
  const { code, errors } = await refusal(list(harness, { status: 'lost' }))
  expect({ code, pointer: errors[0]!.pointer }).toEqual({ code: 'validation_failed', pointer: '/status' })
})

test('a licence of another account is not found, like one that does not exist', async () => {
  const licence = await givenLicence(harness)
  const scopes = [
    { accountId: 'acct_other', licenceId: licence.id },
    { accountId: harness.accountId, licenceId: 'lic_none' },
    { accountId: harness.accountId, licenceId: licence.id, onlyApplicationId: 'app_other' },
  ]
  for (const scope of scopes) {
    expect(await refusal(harness.licensing.getLicence(scope))).toMatchObject({ code: 'not_found' })
    expect((await refusal(harness.licensing.listLicenceHistory({ ...scope, ...newest }))).code).toBe(
      'not_found',
    )
  }
})

test('history comes in pages, newest first, and a page past the end is empty', async () => {
  const licence = await givenLicence(harness)
  const verb = verbOn(harness, licence)
  await harness.licensing.suspendLicence(verb)
  await harness.licensing.reactivateLicence(verb)
  const first = await harness.licensing.listLicenceHistory({ ...verb, ...newest, limit: 2 })
  expect(first.entries.map((entry) => entry.type)).toEqual(['reactivated', 'suspended'])
  expect(first.hasMore).toBe(true)
  const next = { ...verb, limit: 2, beforePosition: first.entries[1]!.position }
  const second = await harness.licensing.listLicenceHistory(next)
  expect(second.entries.map((entry) => entry.type)).toEqual(['issued'])
  expect(second.hasMore).toBe(false)
  const past = { ...verb, limit: 0, beforePosition: second.entries[0]!.position }
  expect(await harness.licensing.listLicenceHistory(past)).toMatchObject({ entries: [], hasMore: false })
})

const listedWith = (within: Harness, entries: Metadata) => listedIds(within, { metadata: { entries } })

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
  for (const pairs of found) expect(await listedWith(within, pairs)).toEqual([licence.id])
  const others: Metadata[] = [
    { team: 'a' },
    { team: 'A b' },
    { 'team.a': 'b' },
    { region: '' },
    { team: 'a b', region: 'us' },
    { unknown: 'x' },
  ]
  for (const pairs of others) expect(await listedWith(within, pairs)).toEqual([])
  expect(await listedWith(freshApplication(), { team: 'a b' })).toEqual([])
  expect(await listedWith({ ...within, accountId: 'acct_other' }, { team: 'a b' })).toEqual([])

  const change = { set: { team: 'c', region: 'eu' }, remove: ['long'], clear: false }
  await update(harness, licence, { metadata: change })
  for (const pairs of [{ team: 'c' }, { region: 'eu' }])
    expect(await listedWith(within, pairs)).toEqual([licence.id])
  for (const pairs of [{ team: 'a b' }, { long }]) expect(await listedWith(within, pairs)).toEqual([])
  await update(harness, licence, { metadata: null })
  expect(await listedWith(within, { region: 'eu' })).toEqual([])
  expect(await harness.sql`select 1 from licence_metadata where licence_id = ${licence.id}`).toHaveLength(0)
})

test('more than three pairs, and a pair that no licence can have, are refused', async () => {
  const pointerOf = async (pairs: Metadata) => {
    const { code, errors } = await refusal(listedWith(harness, pairs))
    return [code, errors[0]?.pointer]
  }
  expect(await pointerOf({ a: '', b: '', c: '', d: '' })).toEqual(['validation_failed', '/metadata'])
  expect(await pointerOf({ 'a b': '1' })).toEqual(['validation_failed', '/metadata/a b'])
  expect(await pointerOf({ a: '\0' })).toEqual(['validation_failed', '/metadata/a'])
})
