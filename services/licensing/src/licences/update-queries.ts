import type { Sql } from '@licensing/database/connect'
import { licenceColumns } from '../lifecycle/licence-queries.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'

/** Makes a licence, which the transaction has locked, found by its domains. `former`: its domains before the change. */
export async function writeHosts(sql: Sql, licence: LicenceRow, former: string[]): Promise<void> {
  const { id, application_id: applicationId, domains } = licence
  const gone = former.filter((domain) => !domains.includes(domain))
  if (gone.length > 0) {
    // A host that was seen still finds the licence, even if the licence is no longer restricted to it.
    await sql`
      delete from licence_hosts
      where application_id = ${applicationId} and host = any(${gone}::text[]) and licence_id = ${id}
        and last_seen_at is null`
  }
  if (domains.length > 0) {
    await sql`
      insert into licence_hosts (application_id, host, licence_id)
      select ${applicationId}, domain, ${id} from unnest(${domains}::text[]) as domain order by domain
      on conflict do nothing`
  }
}

type Concurrent = Pick<LicenceRow, 'id' | 'max_concurrent'>

/** Makes a licence, which the transaction has locked, floating or not, if that has changed. */
export async function writeFloating(sql: Sql, licence: Concurrent, former: Concurrent): Promise<void> {
  const { id, max_concurrent: max } = licence
  if ((max === null) === (former.max_concurrent === null)) return
  if (max === null) {
    await sql`delete from leases where licence_id = ${id}`
    await sql`delete from floating_licences where licence_id = ${id}`
  } else {
    await sql`
      insert into floating_licences (licence_id, activations, floating_since)
      values (${id}, (select count(*) from activations where licence_id = ${id}), now())`
  }
}

/** Replaces the key of a licence that the transaction has locked. */
export async function replaceKey(sql: Sql, licenceId: string, key: string): Promise<LicenceRow> {
  const [row] = await sql<LicenceRow[]>`
    update licences l set key = ${key}, updated_at = clock_timestamp() where l.id = ${licenceId}
    returning ${licenceColumns(sql)}`
  return row!
}
