import { expect, test } from 'vitest'
import { gatewayOfFile } from '../../test/gateway.ts'

const gateway = await gatewayOfFile()
gateway.answers.billing.receiveProcessorEvent = async () => ({})

const send = (signature: string | undefined, body: unknown = { id: 'evt_1' }) =>
  gateway.api.post('/v1/processors/stripe/events', {
    key: null,
    headers: signature === undefined ? {} : { 'stripe-signature': signature },
    body,
  })
const v1 = `v1=${'0a'.repeat(32)}`
const secondsFromNow = (seconds: number) => `t=${Math.floor(Date.now() / 1000) + seconds}`
const t = secondsFromNow(0)

test.each([
  undefined,
  '',
  'nonsense',
  t,
  't=1',
  v1,
  `${t},v1=00`,
  `t=x,${v1}`,
  `${t},${v1.toUpperCase()}`,
  `${t},${v1},<script>`,
  `${t},${t},${v1}`,
  `t=1,${v1}`,
  `${secondsFromNow(-310)},${v1}`,
  `${secondsFromNow(400)},${v1}`,
  `${t},${Array.from({ length: 100 }, () => v1).join(',')}`,
])('an event with the signature %j is refused before its body is read', async (signature) => {
  const before = gateway.calls.length
  // Larger than the body limit: if the body were read, the answer would be 413.
  const answer = await send(signature, 'x'.repeat(2 * 1024 * 1024))
  expect(answer.status).toBe(400)
  expect(answer.body).toMatchObject({ code: 'bad_request' })
  expect(gateway.calls.length).toBe(before)
})

test.each([
  `${t},${v1}`,
  `${t},${v1},${v1}`,
  `${t},v0=${'00'.repeat(32)},${v1}`,
  `${secondsFromNow(-270)},${v1}`,
  `${secondsFromNow(270)},${v1}`,
])('an event with the signature %j reaches the service that verifies it', async (signature) => {
  expect((await send(signature)).status).toBe(200)
})
