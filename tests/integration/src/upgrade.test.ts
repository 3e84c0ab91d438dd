import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { startStack } from '@licensing/test-support/stack'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { expect, test } from 'vitest'
import { buildRelease, buildThisRelease, earlierCommit } from './earlier-release.ts'
import { expectEveryEvent, startLoad } from './load.ts'
import { restartOneAtATime } from './restart.ts'

const two = { catalog: 2, licensing: 2, billing: 2, notifier: 2, gateway: 2 }
const earlier = await earlierCommit()
const images = Boolean(process.env['TEST_IMAGES'])

test.skipIf(earlier === undefined)(
  `each component is upgraded by itself from ${earlier?.slice(0, 12) ?? 'the previous commit (from the first release on)'} to this one under load, while replicas of both run`,
  async () => {
    await using folder = await makeTemporaryFolder()
    const old = await buildRelease(earlier!, folder, images)
    const now = await buildThisRelease(images)
    await using receiver = await startHttpsReceiver()
    await using stack = await startStack({
      receiver,
      replicas: two,
      release: old,
      environment: { RATE_LIMIT_PER_MINUTE: '1000000' },
    })
    const endpoint = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, {
      body: { url: receiver.url(), subscribed_events: '*' },
    })
    expect(endpoint.status).toBe(201)

    const load = await startLoad(stack, 6)
    await restartOneAtATime(stack, load, (process) => process.start({}, now))
    const changes = await load.stop()
    expect(load.failures).toEqual([])
    await expectEveryEvent(stack, receiver, changes)
  },
  600_000,
)
