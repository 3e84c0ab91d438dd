import { createHmac, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import postgres from 'postgres'
import { Pool } from 'undici'

// A separate process. Its arguments are the database, the receiver's URL and its authority. It makes as many deliveries as a
// message requests, and answers when they are done.

const inFlight = 64
const secret = 'whsec_of_the_baseline'
const [databaseUrl = '', receiverUrl = '', authority = ''] = process.argv.slice(2)
const sql = postgres(databaseUrl, { max: 20, onnotice: () => {} })

/**
 * The usual design: insert a row for each event and delivery on arrival, then claim a delivery, send it, insert the attempt,
 * and update the delivery. Columns and indexes are the same as the notifier's if they have the same purpose.
 */
async function makeTables(): Promise<void> {
  await sql`create schema per_row`
  await sql`create table per_row.events (id text primary key, account_id text not null, sequence bigint not null,
    body text not null, created_at timestamptz not null default now(), unique (account_id, sequence))`
  await sql`create table per_row.sequences (account_id text primary key, last bigint not null)`
  await sql`create table per_row.deliveries (id text primary key, application_id text not null,
    endpoint_id text not null, event_id text not null, event_type text not null, status text not null,
    attempt_count int not null default 0, due_at timestamptz, claimed_until timestamptz,
    created_at timestamptz not null default now())`
  await sql`create index on per_row.deliveries (application_id, id)`
  await sql`create index on per_row.deliveries (endpoint_id, id)`
  await sql`create index on per_row.deliveries (application_id, event_type, id)`
  await sql`create index on per_row.deliveries (application_id, status, id)`
  await sql`create index on per_row.deliveries (due_at) where status = 'pending'`
  await sql`create table per_row.attempts (delivery_id text not null, attempt int not null, at timestamptz not null,
    response_code int, duration_ms int not null, response_excerpt text, primary key (delivery_id, attempt))`
}

async function run(pool: Pool, path: string, deliveries: number): Promise<void> {
  let left = deliveries
  const worker = async (_: unknown, index: number) => {
    while (left-- > 0) {
      await record(`acct_${index % 8}`)
      await sendOne(pool, path)
    }
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
}

async function record(accountId: string): Promise<void> {
  const id = `evt_${randomUUID()}`
  await sql.begin(async (tx) => {
    const [row] = await tx<{ last: string }[]>`
      insert into per_row.sequences values (${accountId}, 1)
      on conflict (account_id) do update set last = per_row.sequences.last + 1 returning last`
    const body = JSON.stringify({
      id,
      type: 'licence.suspended',
      api_version: '2026-11-01',
      created_at: new Date().toISOString(),
      sequence: Number(row!.last),
      account_id: accountId,
      application_id: `app_${accountId}`,
      data: {
        object: { licence_id: 'lic_01k9v7f8qyf0cbe7bq2m7t1a2b', status: 'suspended', reason: 'manual' },
      },
      previous: null,
    })
    await tx`insert into per_row.events (id, account_id, sequence, body) values (${id}, ${accountId}, ${row!.last}, ${body})`
    await tx`
      insert into per_row.deliveries (id, application_id, endpoint_id, event_id, event_type, status, due_at)
      values (${`dlv_${randomUUID()}`}, ${`app_${accountId}`}, ${`whe_${accountId}`}, ${id}, 'licence.suspended', 'pending', now())`
  })
}

async function sendOne(pool: Pool, path: string): Promise<void> {
  const [claimed] = await sql<{ id: string; body: string; event_id: string; attempt_count: number }[]>`
    update per_row.deliveries d set claimed_until = now() + interval '30 seconds'
    from per_row.events e
    where d.id = (
      select id from per_row.deliveries where status = 'pending' and due_at <= now()
        and (claimed_until is null or claimed_until < now())
      order by due_at limit 1 for update skip locked
    ) and e.id = d.event_id
    returning d.id, e.body, d.event_id, d.attempt_count`
  if (!claimed) return
  const at = new Date()
  const t = Math.floor(at.getTime() / 1000)
  const v1 = createHmac('sha256', secret).update(`${t}.`).update(claimed.body).digest('hex')
  const answer = await pool.request({
    method: 'POST',
    path,
    headers: {
      'content-type': 'application/json',
      'webhook-id': claimed.event_id,
      'webhook-signature': `t=${t},v1=${v1}`,
    },
    body: claimed.body,
  })
  const excerpt = await answer.body.text()
  await sql`
    insert into per_row.attempts values (${claimed.id}, ${claimed.attempt_count + 1}, ${at}, ${answer.statusCode},
      ${Date.now() - at.getTime()}, ${excerpt})`
  await sql`
    update per_row.deliveries set status = 'delivered', attempt_count = attempt_count + 1, due_at = null,
      claimed_until = null where id = ${claimed.id}`
}

await makeTables()
const url = new URL(receiverUrl)
const pool = new Pool(url.origin, { connections: inFlight, connect: { ca: authority } })
process.send?.('ready')
for (;;) {
  const [deliveries] = (await once(process, 'message')) as [number]
  await run(pool, url.pathname, deliveries)
  process.send?.('done')
}
