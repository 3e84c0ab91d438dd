import { afterEach, expect, it, vi } from 'vitest'
import { LicenceClient } from '../src/product/client.ts'
import { shared } from './vector.ts'

const START = Date.parse('2026-11-21T10:00:00Z')
afterEach(() => void vi.useRealTimers())

/** Waits for work in threads, which takes real time. */
const settled = async () => {
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve))
}

it.each(['release', 'deactivate'] as const)(
  'the background takes no new place after %s, even if its work was due meanwhile',
  async (operation) => {
    vi.useFakeTimers({ now: START, toFake: ['setTimeout', 'clearTimeout', 'Date'] })
    const requests: string[] = []
    const ended = Promise.withResolvers<void>()
    const { app_id: appId, base_url: baseUrl, fingerprint, host } = shared.client
    const client = new LicenceClient({
      appId,
      baseUrl,
      fingerprint,
      host,
      productVersion: '1',
      rootKey: shared.client.root_key as string,
      licenceKey: shared.client.licence_key ?? undefined,
      timeoutMs: 36e5,
      fetch: async (input, init) => {
        const { method, url } = new Request(input, init)
        const path = new URL(url).pathname.replace(`/v1/apps/${appId}`, '')
        requests.push(`${method} ${path}`)
        if (path === '/jwks.json')
          return Response.json({
            keys: [],
            signed: [shared.documents['keys']?.jws],
          })
        if (path === '/revocations') return Response.json({ signature: shared.documents['list_10']?.jws })
        if (method === 'POST' && path === '/v1/activations') return Response.json(granted)
        await ended.promise
        return new Response(null, { status: 204 })
      },
    })
    expect((await client.activate()).usable).toBe(true)
    const ending = client[operation]()
    await vi.waitFor(() => expect(requests.at(-1)).toMatch(/release|DELETE/))
    // The computer slept: the list and the token are due.
    vi.setSystemTime(START + 13 * 3_600_000)
    await vi.advanceTimersByTimeAsync(61_000)
    ended.resolve()
    expect(await ending).toMatchObject({ status: 'unlicensed' })
    await settled()
    expect(requests.filter((request) => request === 'POST /v1/activations')).toHaveLength(1)
    client.stop()
  },
)

const granted = {
  activation_id: 'act_01kahz5k00e000000000000003',
  licence_id: 'lic_01kahz5k00e000000000000002',
  token: shared.documents['token']?.jws,
  lease_ends_at: '2026-11-22T10:00:00.000Z',
}
