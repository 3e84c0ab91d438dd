import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Message } from '@bufbuild/protobuf'
import type { Licence, ListLicencesRequest } from '@licensing/proto/licensing'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { findLicencePage } from './list-queries.ts'
import type { FoundLicences, LicenceFilter } from './list-queries.ts'
import {
  firstPage,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  newest,
  refusal,
  verbOn,
} from '../../test/makers.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

type Filter = Omit<Partial<ListLicencesRequest>, 'accountId' | keyof Message>

/** Each test has its own application, so that it lists only its own licences. */
let applications = 0
const freshApplication = (): Harness => {
  applications += 1
  return { ...harness, applicationId: `app_${applications}` }
}
const list = (within: Harness, filter: Filter = {}) =>
  harness.licensing.listLicences({
    accountId: within.accountId,
    applicationId: within.applicationId,
    ...firstPage,
    neverSeen: false,
    ...filter,
  })
const ids = async (within: Harness, filter: Filter = {}) =>
  (await list(within, filter)).licences.map((licence) => licence.id)
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

test('pages follow each other without a gap, with the requested limit', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const all = await Promise.all(Array.from({ length: 7 }, () => givenLicence(within, { planId: plan.id })))
  const seen: string[] = []
  const sizes: number[] = []
  for (let beforeId = ''; ;) {
    const { licences, hasMore } = await list(within, { limit: 3, beforeId })
    seen.push(...licences.map((licence) => licence.id))
    sizes.push(licences.length)
    if (!hasMore) break
    beforeId = seen.at(-1)!
  }
  expect(seen).toEqual(newestFirst(...all))
  expect(sizes).toEqual([3, 3, 1])
  expect(await list(within, { limit: 7 })).toMatchObject({ hasMore: false })
})

test('while licences are made and changed, no page skips or repeats an older licence', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const stood = await Promise.all(Array.from({ length: 60 }, () => givenLicence(within, { planId: plan.id })))
  const leaving = await Promise.all(
    Array.from({ length: 30 }, () => givenLicence(within, { planId: plan.id })),
  )
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

test('each filter finds its licences, and filters combine', async () => {
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

  expect(await ids(within, { status: 'suspended' })).toEqual([suspended.id])
  expect(await ids(within, { planId: other.id })).toEqual([seenElsewhere.id])
  expect(await ids(within, { planId: 'pln_none' })).toEqual([])
  expect(await ids(within, { externalRef: 'ref' })).toEqual(newestFirst(seenThere, seenElsewhere))
  expect(await ids(within, { domain: host })).toEqual(newestFirst(restricted, seenThere))
  expect(await ids(within, { domain: 'HOST.example.com' })).toEqual(newestFirst(restricted, seenThere))
  expect(await ids(within, { domain: '*.example.org' })).toEqual([restricted.id])
  expect(await ids(within, { domain: 'sub.example.org' })).toEqual([])
  expect(await ids(within, { seenSince: timestampFromDate(t1) })).toEqual(
    newestFirst(seenThere, seenElsewhere),
  )
  const after = new Date(t1.getTime() + 1)
  expect(await ids(within, { seenSince: timestampFromDate(after) })).toEqual([seenElsewhere.id])
  expect(await ids(within, { neverSeen: true })).toEqual(newestFirst(restricted, suspended))

  expect(await ids(within, { domain: host, neverSeen: true })).toEqual([restricted.id])
  expect(await ids(within, { domain: host, seenSince: timestampFromDate(t1) })).toEqual([seenThere.id])
  expect(await ids(within, { domain: host, seenSince: timestampFromDate(t2) })).toEqual([])
  expect(await ids(within, { neverSeen: true, status: 'active' })).toEqual([restricted.id])
  const all = { status: 'active', planId: plan.id, externalRef: 'ref', domain: host }
  expect(await ids(within, { ...all, seenSince: timestampFromDate(t1) })).toEqual([seenThere.id])
  expect(await ids(within, { ...all, planId: other.id })).toEqual([])
  expect(await ids(within, { domain: host, limit: 1, beforeId: seenThere.id })).toEqual([restricted.id])
})

test('licences seen since a time are in list order, not in the order of their calls', async () => {
  const within = freshApplication()
  const [plan, other] = [await givenPlan(within), await givenPlan(within)]
  const at = (day: number) => new Date(Date.UTC(2030, 0, day))
  const licences: Licence[] = []
  for (let day = 1; day <= 6; day += 1) {
    const licence = await givenLicence(within, { planId: day % 2 === 0 ? plan.id : other.id })
    await givenCallHome(licence, 'host.example.com', at((day * 4) % 7))
    licences.push(licence)
  }
  const find = async (more: Partial<LicenceFilter>) => {
    const { accountId, applicationId } = within
    const base = { accountId, applicationId, beforeId: '', limit: 10, neverSeen: false, mayEndEarly: false }
    const { rows } = await findLicencePage(harness.deps.lists, { ...base, seenSince: at(4), ...more })
    return rows.map((row) => row.id)
  }
  // Seen on days 4, 1, 5, 2, 6 and 3.
  const [first, , third, , fifth] = licences.map((licence) => licence.id)
  expect(await find({})).toEqual([fifth, third, first])
  expect(await find({ limit: 2 })).toEqual([fifth, third])
  expect(await find({ beforeId: third! })).toEqual([first])
  expect(await find({ domain: 'host.example.com', beforeId: fifth! })).toEqual([third, first])
  expect(await find({ planId: other.id })).toEqual([fifth, third, first])
  expect(await find({ planId: plan.id })).toEqual([])
  expect(await find({ domain: 'host.example.com', planId: other.id, beforeId: fifth! })).toEqual([
    third,
    first,
  ])
})

/** Licences of two plans, statuses, hosts and references, of which some were seen. The attributes are independent. */
async function givenVaried(within: Harness, count: number) {
  const [planId, otherId] = [(await givenPlan(within)).id, (await givenPlan(within)).id]
  const { sql, accountId } = harness
  const licences = Array.from({ length: count }, (_, n) => ({
    id: `lic_${within.applicationId}_${String(n).padStart(4, '0')}`,
    planId: n % 3 === 0 ? planId : otherId,
    status: n % 4 < 2 ? 'active' : 'suspended',
    externalRef: `ref-${n % 5 < 3}`,
    host: n % 7 < 4 ? 'host.example.com' : 'else.example.com',
    seen: n % 2 === 0,
    seenAt: new Date(Date.UTC(2030, 0, 1 + ((n * 5) % 11))),
  }))
  const column = <K extends keyof (typeof licences)[number]>(name: K) => licences.map((one) => one[name])
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, seen, snapshot_id)
    select id, id, ${accountId}, ${within.applicationId}, plan_id, status, ref, seen = 'true', 'snapshot'
    from unnest(${column('id')}::text[], ${column('planId')}::text[], ${column('status')}::text[],
      ${column('externalRef')}::text[], ${column('seen').map(String)}::text[]) as one (id, plan_id, status, ref, seen)`
  const seen = licences.filter((one) => one.seen)
  await sql`
    insert into licence_activity (licence_id, application_id, last_seen_at)
    select id, ${within.applicationId}, at::timestamptz from unnest(${seen.map(({ id }) => id)}::text[],
      ${seen.map(({ seenAt }) => seenAt.toISOString())}::text[]) as one (id, at)`
  await sql`
    insert into licence_hosts (application_id, host, licence_id)
    select ${within.applicationId}, host, id from unnest(${column('host')}::text[], ${column('id')}::text[]) as one (host, id)`
  return { planId, licences: licences.toReversed() }
}

test('with any filters, pages that may end early contain each matching licence once, in order', async () => {
  const within = freshApplication()
  const { planId, licences } = await givenVaried(within, 60)
  const since = new Date(Date.UTC(2030, 0, 5))
  const choices: {
    filter: Partial<LicenceFilter>
    matches: (one: (typeof licences)[number]) => boolean
  }[][] = [
    [{ filter: { status: 'suspended' }, matches: ({ status }) => status === 'suspended' }],
    [{ filter: { planId }, matches: (one) => one.planId === planId }],
    [{ filter: { domain: 'host.example.com' }, matches: ({ host }) => host === 'host.example.com' }],
    [{ filter: { externalRef: 'ref-true' }, matches: ({ externalRef }) => externalRef === 'ref-true' }],
    [
      { filter: { seenSince: since }, matches: ({ seen, seenAt }) => seen && seenAt >= since },
      { filter: { neverSeen: true }, matches: ({ seen }) => !seen },
    ],
  ]
  const all = choices.reduce(
    (combined, filters) => combined.flatMap((some) => [some, ...filters.map((one) => [...some, one])]),
    [[]] as (typeof choices)[number][],
  )
  expect(all).toHaveLength(48)
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
})

test('a page ends early after a number of licences of the rarest filter, if the caller can continue', async () => {
  const within = freshApplication()
  const { licences, planId } = await givenVaried(within, 60)
  await harness.sql`delete from licence_hosts where application_id = ${within.applicationId} and host like 'else%'`
  await harness.sql`
    update licence_statuses set status = 'revoked' where licence_id in (
      select id from licences l where application_id = ${within.applicationId} and status = 'suspended'
        and not exists (select from licence_hosts h where h.licence_id = l.id))`
  const { accountId, applicationId } = within
  const page = { accountId, applicationId, beforeId: '', limit: 3, neverSeen: false, mayEndEarly: true }
  const none = { ...page, domain: 'host.example.com', status: 'revoked' }
  const { lists } = harness.deps
  const revoked = await findLicencePage(lists, { ...page, limit: 60, status: 'revoked' })
  expect(revoked.rows.length).toBeGreaterThan(7)
  expect(await findLicencePage(lists, none, [2, 5])).toEqual({ rows: [], lookedUntil: revoked.rows[6]!.id })
  expect(await findLicencePage(lists, none)).toEqual({ rows: [] })
  expect(await findLicencePage(lists, { ...none, mayEndEarly: false }, [2, 5])).toEqual({ rows: [] })
  const others = { ...page, accountId: 'acct_other', planId, neverSeen: true }
  expect(await findLicencePage(lists, others, [2])).toEqual({ rows: [] })
  expect(licences).toHaveLength(60)
})

test('filters of another account, and those of another application, find nothing', async () => {
  const within = freshApplication()
  const plan = await givenPlan(within)
  const host = 'host.example.com'
  const licence = await givenLicence(within, { planId: plan.id, domains: [host], externalRef: 'ref' })
  const at = new Date('2030-01-01T00:00:00Z')
  await givenCallHome(licence, 'else.example.com', at)
  const filters: Filter[] = [
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
    expect(await ids(within, filter)).toEqual([licence.id])
    expect(await ids(otherTenant, filter)).toEqual([])
    expect(await ids(freshApplication(), filter)).toEqual([])
  }
})

test('an unknown status is refused', async () => {
  const { code, errors } = await refusal(list(harness, { status: 'lost' }))
  expect({ code, pointer: errors[0]!.pointer }).toEqual({ code: 'validation_failed', pointer: '/status' })
})

test('a licence of another account is not found, like one that does not exist', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  const scopes = [
    { accountId: 'acct_other', licenceId: licence.id },
    { accountId: harness.accountId, licenceId: 'lic_none' },
    { accountId: harness.accountId, licenceId: licence.id, onlyApplicationId: 'app_other' },
  ]
  for (const scope of scopes) {
    expect(await refusal(harness.licensing.getLicence(scope))).toMatchObject({ code: 'not_found' })
    expect(await refusal(harness.licensing.listLicenceHistory({ ...scope, ...newest }))).toMatchObject({
      code: 'not_found',
    })
  }
})

test('history comes in pages, newest first, and a page past the end is empty', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
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
