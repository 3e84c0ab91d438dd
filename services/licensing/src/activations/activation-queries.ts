import type { Sql, Statement } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import { inOrderOf, rowsOf } from '@licensing/database/row-queries'
import { quotaValue } from '@licensing/quotas/quota-queries'
import { inScope } from '../lifecycle/licence-queries.ts'
import type { LicenceScope } from '../lifecycle/licence-queries.ts'
import { currentOverrides } from '../overrides/override-queries.ts'
import type { CurrentOverride } from '../overrides/override.ts'

/** The columns that decide whether a product may run, and that its token contains. */
export interface ProductLicence {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  snapshot_id: string
  status: LicenceStatus
  domains: string[]
  max_activations: number | null
  max_seats: number | null
  max_concurrent: number | null
  /** Set if and only if `max_concurrent` is. */
  lease_minutes: number | null
  expires_on: Date | null
  updates_until: Date | null
  /** The overrides that have not ended. */
  overrides: CurrentOverride[]
}

export interface ActivatedLicence extends ProductLicence {
  activation_id: string
  /** Whether the activation holds a lease that has not ended. */
  has_lease: boolean
}

const productColumns = (sql: Sql) => sql`
  l.id, l.account_id, l.application_id, l.plan_id, l.snapshot_id, l.status, l.domains, l.max_activations,
  l.max_seats, l.max_concurrent, l.lease_minutes, l.expires_on, l.updates_until, ${currentOverrides(sql)} as overrides`

type Read<Row extends ProductLicence> = Omit<Row, 'overrides'> & { overrides: string[] }

function parsed<Row extends ProductLicence>(row: Read<Row>) {
  return { ...row, overrides: row.overrides.map((json) => JSON.parse(json) as CurrentOverride) }
}

export interface Machine {
  licenceKey: string
  fingerprint: string
}

export interface LicenceOfMachine extends ProductLicence {
  /** The activation of the fingerprint; null also if its product has deactivated it. */
  activation_id: string | null
}

/** The licences of these keys, in the order of the request. */
export async function findLicencesOfKeys(
  sql: Sql,
  machines: Machine[],
): Promise<(LicenceOfMachine | undefined)[]> {
  const given = machines.map(({ licenceKey: key, fingerprint }) => ({ key, fingerprint }))
  const rows = await sql<(Read<LicenceOfMachine> & { ordinality: bigint })[]>`
    select machine.ordinality, a.id as activation_id, ${productColumns(sql)}
    from ${rowsOf(sql, { key: 'text', fingerprint: 'text' }, given)} machine
    join licences l on l.key = machine.key
    left join activations a on a.licence_id = l.id and a.fingerprint = machine.fingerprint and a.held_until is null`
  return inOrderOf(machines, rows).map((row) => row && parsed<LicenceOfMachine>(row))
}

/** Whether to wait for rows that another transaction has locked. */
export type OnLocked = 'wait' | 'skip'

/** Locks licences, in the order of their ids. */
async function lock(sql: Sql, which: Statement, onLocked: OnLocked = 'wait') {
  const skip = onLocked === 'skip' ? sql`skip locked` : sql``
  const locking = sql<
    { id: string }[]
  >`select l.id from licences l where ${which} order by l.id for update ${skip}`
  const read = (which: Statement) => sql<(Read<ProductLicence> & { key: string })[]>`
    select l.key, ${productColumns(sql)} from licences l where ${which}`
  // A second statement, even if it is sent with the first, sees everything committed while that one waited for the locks.
  const rows =
    onLocked === 'wait'
      ? (await Promise.all([locking, read(which)]))[1]
      : await read(sql`l.id = any(${(await locking).map(({ id }) => id)}::text[])`)
  return rows.map((row) => parsed<ProductLicence & { key: string }>(row))
}

/** Locks the licences of these keys, so that the activations of each are made one after the other. @returns them by key */
export async function lockLicencesOfKeys(
  sql: Sql,
  keys: string[],
  onLocked: OnLocked,
): Promise<Map<string, ProductLicence>> {
  const licences = await lock(sql, sql`l.key = any(${keys}::text[])`, onLocked)
  return new Map(licences.map((licence) => [licence.key, licence]))
}

export async function lockLicenceOfId(sql: Sql, licenceId: string): Promise<ProductLicence | undefined> {
  const [licence] = await lock(sql, sql`l.id = ${licenceId}`)
  return licence
}

/** The activations that their products have not deactivated, in the order of the request. */
export async function findActivations(
  sql: Sql,
  activationIds: string[],
): Promise<(ActivatedLicence | undefined)[]> {
  const rows = await sql<Read<ActivatedLicence>[]>`
    select a.id as activation_id, ${productColumns(sql)},
      coalesce(lease.counted and lease.ends_at > clock_timestamp(), false) as has_lease
    from activations a join licences l on l.id = a.licence_id
      left join leases lease on lease.activation_id = a.id and l.max_concurrent is not null
    where a.id = any(${activationIds}::text[]) and a.held_until is null`
  const found = new Map(rows.map((row) => [row.activation_id, row]))
  return activationIds.map((id) => {
    const row = found.get(id)
    return row && parsed<ActivatedLicence>(row)
  })
}

/** The slots of a licence, read under its lock. */
export interface Slots {
  /** How many activations it has, also those that their products have deactivated. */
  taken: number
  /** How many of them their products have deactivated, but keep their slots. */
  held: number
  /** When the first of these slots is free. */
  heldUntil: Date | null
  /** How many activations are kept although their time is over. */
  ended: number
  quota: number
  /** Activations by fingerprint, of the requested fingerprints. */
  known: Map<string, KnownActivation>
}

export interface KnownActivation {
  id: string
  /** Set if its product has deactivated it: the ends of its last token and file. */
  kept: { tokenEndsAt: Date | null; offlineUntil: Date | null } | null
}

/** Finds the slots of licences, by the licence's id. */
export async function findSlots(
  sql: Sql,
  asked: { licence: Pick<ProductLicence, 'id' | 'account_id'>; fingerprints: string[] }[],
): Promise<Map<string, Slots>> {
  const licences = asked.map(({ licence: { id, account_id } }) => ({ id, account_id }))
  const machines = asked.flatMap(({ licence, fingerprints }) =>
    fingerprints.map((fingerprint) => ({ licence_id: licence.id, fingerprint })),
  )
  const [rows, activations] = await Promise.all([
    sql<CountedRow[]>`
      select l.id, held.held, held.held_until, held.ended,
        ${quotaValue(sql, { column: 'l.account_id' }, 'activations')} as quota,
        coalesce(
          (select activations from floating_licences where licence_id = l.id),
          (select count(*)::int from activations where licence_id = l.id)
        ) as taken
      from ${rowsOf(sql, { id: 'text', account_id: 'text' }, licences)} l cross join lateral (
        select count(*) filter (where held_until > now())::int as held,
          min(held_until) filter (where held_until > now()) as held_until,
          count(*) filter (where held_until <= now())::int as ended
        from activations where licence_id = l.id and held_until is not null
      ) held`,
    sql<KnownRow[]>`
      select a.licence_id, a.fingerprint, a.id, a.held_until is not null as is_held, a.token_ends_at, a.offline_until
      from ${rowsOf(sql, { licence_id: 'text', fingerprint: 'text' }, machines)} machine
        join activations a on a.licence_id = machine.licence_id and a.fingerprint = machine.fingerprint`,
  ])
  const known = Map.groupBy(activations, (row) => row.licence_id)
  return new Map(
    rows.map(({ id, held_until: heldUntil, quota, ...counts }) => [
      id,
      { ...counts, heldUntil, quota: Number(quota), known: new Map(known.get(id)?.map(readKnown)) },
    ]),
  )
}

interface CountedRow {
  id: string
  taken: number
  held: number
  held_until: Date | null
  ended: number
  quota: bigint
}

interface KnownRow {
  licence_id: string
  fingerprint: string
  id: string
  is_held: boolean
  token_ends_at: Date | null
  offline_until: Date | null
}

function readKnown(row: KnownRow): [fingerprint: string, KnownActivation] {
  const kept = row.is_held ? { tokenEndsAt: row.token_ends_at, offlineUntil: row.offline_until } : null
  return [row.fingerprint, { id: row.id, kept }]
}

/**
 * Locks activations, so that they get no token from another transaction meanwhile. A transaction locks all that it needs at
 * once, in the order of their ids.
 */
export async function lockActivations(sql: Sql, ids: string[]): Promise<void> {
  await sql`select from activations where id = any(${ids}::text[]) order by id for update`
}

/** Locks an activation of a licence, and that of a machine if there is one. */
export async function lockWithMachine(
  sql: Sql,
  licenceId: string,
  activationId: string,
  fingerprint: string,
): Promise<void> {
  await sql`
    select from activations
    where licence_id = ${licenceId} and (id = ${activationId} or fingerprint = ${fingerprint})
    order by id for update`
}

/** An activation that gets a token. */
export interface GrantedActivation {
  id: string
  /** The end of the token. */
  tokenEndsAt: Date
  /** The end of the file that the token is in; null if it is in none. */
  offlineUntil: Date | null
}

export interface NewActivation extends GrantedActivation {
  licence: Pick<ProductLicence, 'id' | 'account_id' | 'application_id'>
  fingerprint: string
  host: string
  productVersion: string
}

const grantedColumns = { id: 'text', token_ends_at: 'timestamptz', offline_until: 'timestamptz' } as const
const grantedRow = ({ id, tokenEndsAt, offlineUntil }: GrantedActivation) => {
  return { id, token_ends_at: tokenEndsAt, offline_until: offlineUntil }
}

const newColumns = {
  ...grantedColumns,
  account_id: 'text',
  application_id: 'text',
  licence_id: 'text',
  fingerprint: 'text',
  host: 'text',
  product_version: 'text',
} as const

export async function insertActivations(sql: Sql, activations: NewActivation[]): Promise<void> {
  const rows = activations.map(({ licence, fingerprint, host, productVersion, ...granted }) => ({
    ...grantedRow(granted),
    account_id: licence.account_id,
    application_id: licence.application_id,
    licence_id: licence.id,
    fingerprint,
    host,
    product_version: productVersion,
  }))
  await sql`
    with given as materialized (
      select * from ${rowsOf(sql, newColumns, rows)} activation
    ), counted as (
      update floating_licences f set activations = f.activations + added.count
      from (select licence_id, count(*)::int from given group by licence_id) added
      where f.licence_id = added.licence_id
    ), noted as (
      insert into application_day_changes (application_id, account_id, day, activations_new, activations_seen)
      select application_id, account_id, (now() at time zone 'UTC')::date, count(*), count(*)
      from given group by application_id, account_id
    )
    insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version,
      token_ends_at, offline_until)
    select id, account_id, application_id, licence_id, fingerprint, host, product_version, token_ends_at, offline_until
    from given`
}

/** Records new tokens of locked activations. */
export async function updateActivations(sql: Sql, activations: GrantedActivation[]): Promise<void> {
  await sql`
    update activations a
    set token_ends_at = greatest(a.token_ends_at, granted.token_ends_at),
      offline_until = greatest(a.offline_until, granted.offline_until)
    from (
      select id, max(token_ends_at) as token_ends_at, max(offline_until) as offline_until
      from ${rowsOf(sql, grantedColumns, activations.map(grantedRow))} granted group by id
    ) granted
    where a.id = granted.id`
}

/** An activation as the vendor sees it. */
export interface ActivationRow {
  id: string
  fingerprint: string
  host: string
  product_version: string
  created_at: Date
  last_seen_at: Date
  lease_ends_at: Date | null
}

/** A page of a licence's activations, newest first; undefined if there is no such licence. */
export async function listActivationRows(
  sql: Sql,
  scope: LicenceScope,
  page: PageRequest,
): Promise<ActivationRow[] | undefined> {
  const rows = await sql<(ActivationRow | { id: null })[]>`
    select a.id, a.fingerprint, a.host, a.product_version, a.created_at, a.last_seen_at,
      (select ends_at from leases where activation_id = a.id) as lease_ends_at
    from licences l left join lateral (
      select id, fingerprint, host, product_version, created_at, last_seen_at from activations
      where licence_id = l.id ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
      order by id desc limit ${rowsFor(page.limit)}
    ) a on true
    where ${inScope(sql, scope)}
    order by a.id desc`
  if (rows.length === 0) return undefined
  return rows.filter((row) => row.id !== null)
}
