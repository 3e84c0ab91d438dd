import { randomUUID } from 'node:crypto'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { PgBoss } from 'pg-boss'
import { Pool } from 'undici'
import { deliveryHeaders } from '../../../../services/notifier/src/dispatch/attempt.ts'
import type { TestBed } from './test-bed.ts'
import { measured, type Cost } from './deliveries-per-cpu-second.ts'

const insertedAtOnce = 500

/** Only signed posts, without queue and database. */
export async function bareLoop(bed: TestBed, deliveries: number): Promise<Cost> {
  const { post, close } = signedPosts(bed, '/bare')
  const one = () => post(envelope())
  await times(Math.min(1_000, deliveries), one)
  const cost = await measured(bed, process.pid, deliveries, () => times(deliveries, one))
  await close()
  return cost
}

/** Creates a log of attempts for vendors, which job queues do not have. */
async function attemptLog({ sql }: TestBed) {
  await sql`
    create table if not exists job_attempts (event_id text not null, attempt int not null, at timestamptz not null,
      response_code int, duration_ms int not null, primary key (event_id, attempt))`
  return async (eventId: string, at: Date) => {
    await sql`insert into job_attempts values (${eventId}, 1, ${at}, 200, ${Date.now() - at.getTime()})`
  }
}

/** graphile-worker, configured as in its performance documentation: a local queue, and completions in batches. */
export async function graphileWorker(bed: TestBed, deliveries: number): Promise<Cost> {
  const { post, close } = signedPosts(bed, '/graphile-worker')
  const record = await attemptLog(bed)
  const quiet = new Logger(() => () => {})
  const utils = await makeWorkerUtils({ connectionString: bed.databaseUrl, logger: quiet })
  await utils.migrate()
  const queue = countDown()
  const runner = await run({
    preset: {
      worker: {
        connectionString: bed.databaseUrl,
        maxPoolSize: 20,
        concurrentJobs: inFlight,
        localQueue: { size: insertedAtOnce, refetchDelay: { durationMs: 5 } },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
        logger: quiet,
      },
    },
    taskList: {
      deliver: async (payload) => {
        const event = payload as { id: string; body: string }
        const at = new Date()
        await post(event)
        await record(event.id, at)
        queue.one()
      },
    },
    noHandleSignals: true,
  })
  const burst = async (count: number) => {
    const done = queue.until(count)
    for (let at = 0; at < count; at += insertedAtOnce) {
      const size = Math.min(insertedAtOnce, count - at)
      await utils.addJobs(
        Array.from({ length: size }, () => ({ identifier: 'deliver', payload: envelope() })),
      )
    }
    await done
  }
  await burst(Math.min(500, deliveries))
  const cost = await measured(bed, process.pid, deliveries, () => burst(deliveries))
  await runner.stop()
  await utils.release()
  await close()
  return cost
}

/** pg-boss, configured for throughput as in its guide: jobs are fetched in batches and announced by notifications. */
export async function pgBoss(bed: TestBed, deliveries: number): Promise<Cost> {
  const { post, close } = signedPosts(bed, '/pg-boss')
  const record = await attemptLog(bed)
  const boss = new PgBoss({ connectionString: bed.databaseUrl, max: 20 })
  boss.on('error', (error) => process.stderr.write(`pg-boss: ${String(error)}\n`))
  await boss.start()
  await boss.createQueue('deliver')
  const queue = countDown()
  const options = { batchSize: inFlight, localConcurrency: 4, pollingIntervalSeconds: 0.5 }
  await boss.work<{ id: string; body: string }>('deliver', options, async (jobs) => {
    await Promise.all(
      jobs.map(async ({ data }) => {
        const at = new Date()
        await post(data)
        await record(data.id, at)
      }),
    )
    for (const _ of jobs) queue.one()
  })
  const burst = async (count: number) => {
    const done = queue.until(count)
    for (let at = 0; at < count; at += insertedAtOnce) {
      const size = Math.min(insertedAtOnce, count - at)
      await boss.insert(
        'deliver',
        Array.from({ length: size }, () => ({ data: envelope() })),
      )
    }
    await done
  }
  await burst(Math.min(500, deliveries))
  const cost = await measured(bed, process.pid, deliveries, () => burst(deliveries))
  await boss.stop({ graceful: true, timeout: 5_000 })
  await close()
  return cost
}

/** Counts finished jobs, and resolves when the requested number is reached. */
function countDown() {
  let left = 0
  let finish = () => {}
  return {
    until(count: number): Promise<void> {
      left = count
      return new Promise((resolve) => {
        finish = resolve
      })
    },
    one(): void {
      left -= 1
      if (left === 0) finish()
    },
  }
}

export const inFlight = 64
const secret = 'whsec_of_the_baseline'

/** An envelope in the format that vendors receive. */
export function envelope(): { id: string; body: string } {
  const id = `evt_${randomUUID()}`
  const licence = { licence_id: 'lic_01k9v7f8qyf0cbe7bq2m7t1a2b', status: 'suspended', reason: 'manual' }
  const body = JSON.stringify({
    id,
    type: 'licence.suspended',
    api_version: '2026-11-01',
    created_at: new Date().toISOString(),
    sequence: 1,
    account_id: 'acct_01k9v7f8qyf0cbe7bq2m7t1a2b',
    application_id: 'app_01k9v7f8qyf0cbe7bq2m7t1a2b',
    data: { object: licence },
    previous: null,
  })
  return { id, body }
}

/** Sends signed posts over kept HTTPS connections, as the handler of each compared program does. */
function signedPosts(bed: TestBed, path: string) {
  const { origin, pathname } = new URL(bed.url(path))
  const pool = new Pool(origin, { connections: inFlight, connect: { ca: bed.authority } })
  return {
    post: async ({ id, body }: { id: string; body: string }): Promise<void> => {
      const bytes = Buffer.from(body)
      const unixSeconds = Math.floor(Date.now() / 1000)
      const answer = await pool.request({
        method: 'POST',
        path: pathname,
        headers: deliveryHeaders({ secret, body: bytes, unixSeconds, eventId: id, attempt: 1 }),
        body: bytes,
      })
      await answer.body.dump()
      if (answer.statusCode !== 200) throw new Error(`answered ${answer.statusCode}`)
    },
    close: () => pool.close(),
  }
}

/** Runs `work` this many times, `inFlight` at a time. */
export async function times(count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count
  const lane = async () => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
}
