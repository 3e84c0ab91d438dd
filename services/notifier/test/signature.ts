import { createHmac } from 'node:crypto'
import type { ReceivedRequest } from '@licensing/test-support/https-receiver'
import { expect } from 'vitest'

/** Expects that a request is signed with this secret, at the time that it names. */
export function expectSigned({ headers, body }: ReceivedRequest, secret: string): void {
  const signature = String(headers['webhook-signature'])
  const [, t] = /^t=(\d+),/.exec(signature) ?? []
  const v1 = createHmac('sha256', secret).update(`${t}.`).update(body).digest('hex')
  expect(signature).toBe(`t=${t},v1=${v1}`)
}
