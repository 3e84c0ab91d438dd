import { randomUUID } from 'node:crypto'
import { Pool } from 'undici'
import { deliveryHeaders } from '../../../../services/notifier/src/dispatch/attempt.ts'
import type { Bed } from './bed.ts'

export const inFlight = 64
const secret = 'whsec_of_the_baseline'

/** An envelope as vendors get it. */
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

/** Signed posts over kept HTTPS connections: what every contender's handler does. */
export function signedPosts(bed: Bed, path: string) {
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

/** Does `work` this many times, `inFlight` at a time. */
export async function times(count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count
  const lane = async () => {
    while (left-- > 0) await work()
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
}
