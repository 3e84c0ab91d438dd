import type { Database } from '@licensing/database/connect'

/** Inserts events that were recorded in the last hour, when there was no endpoint. Their numbers follow those of existing events. */
export async function givenPastEvents(
  sql: Database,
  of: { accountId: string; applicationId: string },
  count: number,
): Promise<void> {
  await sql.begin(async (tx) => {
    const [row] = await tx<{ before: bigint }[]>`
      insert into account_sequences as known (account_id, last_sequence) values (${of.accountId}, ${count})
      on conflict (account_id) do update set last_sequence = known.last_sequence + ${count}
      returning last_sequence - ${count} as before`
    await tx`
      insert into events (recorded_at, account_id, sequence, application_id, id, body)
      select made.at, ${of.accountId}, ${row!.before} + i, ${of.applicationId}, made.id, format(
        '{"id":"%s","type":"licence.suspended","api_version":"2026-11-01","created_at":"%s","sequence":%s,"account_id":"%s","application_id":"%s","data":{"object":{"licence_id":"lic_01k9v7f8qyf0cbe7bq2m7t1a2b","status":"suspended"}},"previous":null}',
        made.id, to_char(made.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), ${row!.before} + i,
        ${of.accountId}::text, ${of.applicationId}::text)
      from generate_series(1, ${count}::int) as i
      cross join lateral (
        select 'evt_' || lpad(i::text, 26, '0') as id,
          date_trunc('milliseconds', now()) - (${count}::int - i + 60000) * interval '1 millisecond' as at
      ) made`
  })
}
