import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { LicenceClient } from '../src/product/client.ts'
import { memoryStore, type LicenceStore } from '../src/product/store.ts'
import { optionsOf, shared } from './vector.ts'

const START = Date.parse('2026-11-21T10:00:00Z')
const MINUTE = 60_000

/** Work that the crypto threads have not finished; they run in real time. */
const atWork = new Set<Promise<unknown>>()

/** Only the clock and the timers are simulated. */
beforeEach(() => {
  vi.useFakeTimers({ now: START, toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  const { subtle } = crypto
  for (const name of ['importKey', 'verify', 'digest'] as const) {
    const work = subtle[name].bind(subtle) as (...given: unknown[]) => Promise<unknown>
    vi.spyOn(subtle, name).mockImplementation(((...given: unknown[]) => watched(work(...given))) as never)
  }
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

function watched(work: Promise<unknown>): Promise<unknown> {
  const done = () => void atWork.delete(work)
  atWork.add(work)
  work.then(done, done)
  return work
}

describe('the background', () => {
  it('does not exist before the first call', () => {
    const { requests } = given(activated)
    expect([vi.getTimerCount(), requests.length]).toEqual([0, 0])
  })

  it('is also started by the first call of hasFeature', async () => {
    const store = memoryStore(JSON.stringify(record))
    const { client, requests } = given(activated, { store })
    expect(client.hasFeature('export_pdf')).toBe(false)
    await pass(2000)
    expect(client.hasFeature('export_pdf')).toBe(true)
    expect(requests).toEqual(['GET /revocations'])
  })

  // With 0.0012345 the rest of the interval is not a whole number of milliseconds.
  it.each([0, 0.001_234_5, 0.5, 0.999])(
    'checks the revocation list at once, and then within every check interval: spread by %d',
    async (spread) => {
      vi.spyOn(Math, 'random').mockReturnValue(spread)
      const { client, requests } = given(activated)
      await client.activate()
      await pass(5000)
      const looks = () => requests.filter((request) => request.startsWith('GET /revocations')).length
      expect(looks()).toBe(1)
      for (let interval = 2; interval <= 6; interval++) {
        await pass(15 * MINUTE)
        expect(looks()).toBeGreaterThanOrEqual(interval)
      }
      expect(looks()).toBeLessThanOrEqual(8)
    },
  )

  it.each([
    { spread: 0, at: 12 },
    { spread: 0.5, at: 13.2 },
    { spread: 0.999, at: 14.4 },
  ])(
    'renews the token between half and six tenths of its life: spread by $spread, after $at h',
    async ({ spread, at }) => {
      vi.spyOn(Math, 'random').mockReturnValue(spread)
      const { client, requests } = given(activated)
      await client.activate()
      const refreshes = () => requests.filter((request) => request.endsWith('/refresh')).length
      // The list was signed 15 minutes after the start: it cannot be earlier than that.
      await pass((at * 60 - 15) * MINUTE - 2 * MINUTE)
      expect(refreshes()).toBe(0)
      await pass(4 * MINUTE)
      expect(refreshes()).toBe(1)
    },
  )

  it('slows down if the service keeps returning the same old token', async () => {
    const { client, requests } = given((request) =>
      request.endsWith('/refresh') ? grant('token') : activated(request),
    )
    await client.activate()
    await pass(18 * 60 * MINUTE)
    const refreshes = requests.filter((request) => request.endsWith('/refresh')).length
    expect(refreshes).toBeGreaterThan(3)
    expect(refreshes).toBeLessThan(25)
  })

  it('retries the activation at growing intervals, and becomes licensed by itself when the service is available', async () => {
    let isUp = false
    const heard: string[] = []
    const { client, requests } = given((request) => (isUp ? activated(request) : null))
    client.onChange(({ status, reason }) => heard.push(`${status} ${reason}`))
    await client.activate()
    await pass(31_000)
    expect(requests).toHaveLength(2)
    await pass(8 * 60 * MINUTE)
    expect(requests.length).toBeGreaterThan(12)
    expect(requests.length).toBeLessThan(30)
    isUp = true
    await pass(61 * MINUTE)
    expect(heard.slice(0, 2)).toEqual(['unlicensed unreachable', 'licensed null'])
  })

  it('does not retry a key that was refused', async () => {
    const { client, requests } = given(() => problem(404, 'not_found'))
    await client.activate()
    await pass(4 * 60 * MINUTE)
    expect(requests).toEqual(['POST /v1/activations'])
  })

  it('has nothing to do without a licence key, and nothing more to do once the licence is revoked', async () => {
    const without = given(activated, { licenceKey: undefined })
    await without.client.activate()
    await pass(5000)
    expect([vi.getTimerCount(), without.requests]).toEqual([0, []])
    const { client, requests } = given((request) =>
      request.startsWith('GET /revocations')
        ? Response.json({ signature: shared.documents['list_12_names_us']?.jws })
        : activated(request),
    )
    await client.activate()
    await pass(5000)
    expect(client.state.reason).toBe('revoked')
    const before = requests.length
    await pass(60 * MINUTE)
    expect([vi.getTimerCount(), requests.length - before]).toEqual([0, 0])
  })

  it('makes no call before Retry-After has passed', async () => {
    const { client, requests } = given(() => problem(503, 'unavailable', { 'retry-after': '600' }))
    await client.activate()
    await pass(599_000)
    expect(requests).toHaveLength(1)
    await pass(32_000)
    expect(requests).toHaveLength(2)
  })

  it('notifies listeners when the token ends', async () => {
    const { client } = given((request) => (request.includes('/refresh') ? null : activated(request)))
    const heard: string[] = []
    await client.activate()
    client.onChange(({ status, reason }) => heard.push(`${status} ${reason}`))
    await pass(24 * 60 * MINUTE + 1000)
    expect(heard).toContain('grace unreachable')
    expect(heard.at(-1)).toBe('lapsed unreachable')
    client.stop()
  })

  it('requests a token at once if the clock was turned back', async () => {
    const { client, requests } = given(activated)
    await client.activate()
    await pass(5000)
    vi.setSystemTime(START - 60 * MINUTE)
    await pass(2 * MINUTE)
    expect(requests.filter((request) => request.endsWith('/refresh'))).not.toHaveLength(0)
  })

  it.each(['hasFeature', 'limit', 'activate'] as const)(
    'renews a lease that ended while the machine slept as soon as %s is called, once, and not before its backoff',
    async (call) => {
      let lease = 'token_of_lease'
      const { client, requests } = given((request) => {
        if (request === 'GET /jwks.json') return activated(request)
        // The list was signed when the lease has ended.
        if (request === 'GET /revocations') return null
        return lease === '' ? null : grant(lease)
      })
      await client.activate()
      await pass(5000)
      // The timers do not run while it sleeps.
      vi.setSystemTime(START + 20 * MINUTE)
      const before = requests.length
      const asked = () => requests.slice(before).filter((request) => request.startsWith('POST'))
      lease = ''
      for (let times = 0; times < 5; times++) {
        if (call === 'activate') void client.activate()
        else expect(client[call]('export_pdf')).toBe(call === 'hasFeature' ? false : 0)
      }
      await settled()
      expect(client.state.status).toBe('lapsed')
      expect(asked()).toHaveLength(1)
      lease = 'token_of_lease_after_a_pause'
      if (call === 'activate') await client.activate()
      else {
        client[call]('export_pdf')
        await settled()
        expect(asked()).toHaveLength(1)
        await pass(31_000)
      }
      expect(asked()).toHaveLength(2)
      expect(client.hasFeature('export_pdf')).toBe(true)
    },
  )

  it('leaves no timer behind when it is stopped', async () => {
    const { client, requests } = given(activated)
    await client.activate()
    client.stop()
    const before = requests.length
    await pass(60 * MINUTE)
    expect([requests.length - before, vi.getTimerCount()]).toEqual([0, 0])
  })
})

/** Advances the clock in steps. After each step the client finishes all work that is due. */
async function pass(ms: number): Promise<void> {
  const step = Math.max(1000, Math.min(MINUTE, ms / 50))
  for (let passed = 0; passed < ms; passed += step) {
    await vi.advanceTimersByTimeAsync(Math.min(step, ms - passed))
    await settled()
  }
}

/** Lets the client finish what it does, without time passing. */
async function settled(): Promise<void> {
  for (let idle = 0; idle < 3; idle = atWork.size === 0 ? idle + 1 : 0) {
    await Promise.allSettled(atWork)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

type Answer = (request: string) => Response | null

function given(answer: Answer, options: { store?: LicenceStore; licenceKey?: string | undefined } = {}) {
  const requests: string[] = []
  const client = new LicenceClient({
    ...optionsOf(shared.client),
    ...options,
    fetch: async (input, init) => {
      const { method, url } = new Request(input, init)
      const { pathname } = new URL(url)
      const request = `${method} ${pathname.replace(`/v1/apps/${shared.client.app_id}`, '')}`
      requests.push(request)
      const response = answer(request)
      if (!response) throw new TypeError('fetch failed')
      return response
    },
  })
  return { client, requests }
}

const activationId = 'act_01kahz5k00e000000000000003'
const licenceId = 'lic_01kahz5k00e000000000000002'

function grant(token: string): Response {
  const { jws } = shared.documents[token] ?? {}
  return Response.json({ activation_id: activationId, licence_id: licenceId, token: jws })
}

/**
 * A service that grants a token, another one from 13 hours after the start, and has a list that names other licences.
 */
const activated: Answer = (request) => {
  if (request.endsWith('/refresh')) return grant('token_after_13h')
  if (request.startsWith('POST')) return grant('token')
  if (request.endsWith('/jwks.json'))
    return Response.json({ keys: [], signed: [shared.documents['keys']?.jws] })
  return Response.json({ signature: shared.documents['list_10']?.jws })
}

const record = {
  format: 1,
  app_id: shared.client.app_id,
  licence_key: shared.client.licence_key,
  legacy_key: null,
  fingerprint: shared.client.fingerprint,
  token: shared.documents['token']?.jws,
  refusal: null,
  signed_keys: shared.documents['keys']?.jws,
  jwks: null,
  file_keys: null,
  revocations: null,
  seen: { time: new Date(START).toISOString(), local: new Date(START).toISOString(), turned_back: false },
}

function problem(status: number, code: string, headers: Record<string, string> = {}): Response {
  return Response.json({ status, code, detail: code }, { status, headers })
}
