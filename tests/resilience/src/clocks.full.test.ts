import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad } from '@licensing/test-support/load'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { expect, test } from 'vitest'

const environment = {
  CALLER_CHECK: 'require',
  WEBHOOK_BACKOFF_SECONDS: '2',
  RATE_LIMIT_PER_MINUTE: '10000000',
}

/** The setting with which a Node process believes that it is so many seconds later. */
function clockAhead(seconds: number): { NODE_OPTIONS: string } {
  const code = `
    const { now } = Date
    globalThis.Date = class extends Date {
      constructor(...given) { given.length > 0 ? super(...given) : super(Date.now()) }
      static now() { return now() + ${seconds * 1000} }
    }`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` }
}

test.each([
  ['an hour ahead', 3_600],
  ['an hour behind', -3_600],
])(
  'a replica of each service whose clock is %s: no request fails, and nothing is lost',
  async (_, seconds) => {
    await using receiver = await startHttpsReceiver()
    const replicas = { catalog: 2, licensing: 2, billing: 2, notifier: 2, gateway: 2 }
    await using stack = await startStack({ receiver, environment, replicas })
    const { catalog, licensing, billing, notifier } = stack.processes
    const replicasOff = [catalog[1]!, licensing[1]!, billing[1]!, notifier[1]!]
    for (const each of replicasOff) await each.start(clockAhead(seconds))
    await using load = await startLoad(stack, receiver)
    await load.more(600)
    await load.stop()
    expect(load.failures).toEqual([])
    await expectNothingLost(stack, receiver, load)
    const now = Date.now() / 1000
    for (const { headers } of receiver.requests) {
      const signedAt = Number(/t=(\d+)/.exec(String(headers['webhook-signature']))?.[1])
      expect(Math.abs(now - signedAt)).toBeLessThan(300)
    }
    for (const { operationsUrl } of replicasOff) {
      await eventually(async () => {
        const metrics = await (await fetch(`${operationsUrl}/metrics`)).text()
        const [, offset] = /^clock_offset_seconds (\S+)$/m.exec(metrics) ?? []
        expect(Math.abs(Number(offset) + seconds)).toBeLessThan(5)
      })
    }
  },
)
