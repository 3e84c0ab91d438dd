import { randomUUID } from 'node:crypto'
import { Pool } from 'undici'
import { deliveryHeaders } from '../../../../services/notifier/src/dispatch/attempt.ts'
import type { TestBed } from './test-bed.ts'
import { measured, type Cost } from './deliveries-per-cpu-second.ts'

const inFlight = 64
const secret = 'whsec_of_the_baseline'

/** The cost of signed posts over kept HTTPS connections, without queue and database. */
export async function bareLoop(bed: TestBed, deliveries: number): Promise<Cost> {
  const { origin, pathname: path } = new URL(bed.url('/bare'))
  const pool = new Pool(origin, { connections: inFlight, connect: { ca: bed.authority } })
  const post = async () => {
    const { id, body } = envelope()
    const unixSeconds = Math.floor(Date.now() / 1000)
    const signed = { signature: 'default', secrets: [secret], body, unixSeconds } as const
    const headers = deliveryHeaders({ ...signed, eventId: id, attempt: 1, headers: [] })
    const answer = await pool.request({ method: 'POST', path, headers, body })
    await answer.body.dump()
    if (answer.statusCode !== 200) throw new Error(`answered ${answer.statusCode}`)
  }
  const run = async (count: number) => {
    let left = count
    const lane = async () => {
      while (left-- > 0) await post()
    }
    await Promise.all(Array.from({ length: inFlight }, lane))
  }
  await run(Math.min(1_000, deliveries))
  const cost = await measured(bed, process.pid, deliveries, () => run(deliveries))
  await pool.close()
  return cost
}

/** An event in the format that vendors receive. */
function envelope(): { id: string; body: Buffer } {
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
  return { id, body: Buffer.from(body) }
}
