import { apiClient } from '@licensing/test-support/api-client'
import type { ApiAnswer } from '@licensing/test-support/api-client'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'vitest'

interface Sent {
  method: 'get' | 'post'
  path: string
  body?: unknown
  key?: string
  bearer?: string
}

/** A change that the vendor's backend asked for, with its answer. */
interface Change {
  sent: Sent
  answer: Record<string, unknown>
}

/**
 * A vendor of a stack with an endpoint, whose backend and products repeat each call until it is answered, with the same
 * `Idempotency-Key`, and follow the address of a 421.
 */
export async function givenMovingVendor(stack: Stack, receiver: HttpsReceiver) {
  const made = await runAdmin(stack, 'create-account', '--name', 'Moving')
  expect(made.stderr).toBe('')
  const { account_id: accountId, app_id: appId, key } = JSON.parse(made.stdout) as Record<string, string>
  /** The gateways that it calls in turn. */
  let bases = stack.gatewayUrls
  let calls = 0
  let answeredMs = performance.now()
  /** The longest time between two answers to changes of the vendor. */
  let longestMs = 0
  const statuses = new Set<number>()
  const changes: Change[] = []
  const refreshed: string[] = []
  const state = { running: true }

  const call = async <Body>({
    method,
    path,
    body,
    key: idempotencyKey,
    bearer = key!,
  }: Sent): Promise<ApiAnswer<Body>> => {
    const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
    for (;;) {
      const api = apiClient(bases[calls++ % bases.length]!, bearer)
      const request = { ...(body !== undefined && { body }), headers }
      const answer = await api[method]<Body>(path, request).catch(() => undefined)
      if (answer) statuses.add(answer.status)
      if (answer?.status === 421) bases = [(answer.body as { address: string }).address]
      else if (answer && answer.status !== 503) return answer
      await pause(30)
    }
  }
  /** A change with an `Idempotency-Key`. */
  const change = async (path: string, body?: unknown) => {
    const sent: Sent = { method: 'post', path, key: randomUUID(), ...(body !== undefined && { body }) }
    const answer = await call<Record<string, unknown>>(sent)
    expect([path, answer.status, answer.body]).toEqual([path, expect.toBeOneOf([200, 201]), answer.body])
    changes.push({ sent, answer: answer.body })
    longestMs = Math.max(longestMs, performance.now() - answeredMs)
    answeredMs = performance.now()
    return answer.body as { id: string; key: string }
  }
  const plan = await change(`/v1/apps/${appId}/plans`, { name: 'Pro', code: 'pro' })
  const endpoint = await call<{ id: string }>({
    method: 'post',
    path: `/v1/apps/${appId}/webhook-endpoints`,
    body: { url: receiver.url(), subscribed_events: '*' },
  })
  expect(endpoint.status).toBe(201)

  const issued = new Map<string, { key: string; verbs: string[] }>()
  const issue = async (reference: string) => {
    const licence = await change(`/v1/apps/${appId}/licences`, {
      external_ref: reference,
      plan_id: plan.id,
      metadata: { reference },
    })
    const verbs: string[] = []
    issued.set(licence.id, { key: licence.key, verbs })
    return { ...licence, verbs }
  }
  const backend = async () => {
    while (state.running) {
      const { id, verbs } = await issue(randomUUID())
      for (const verb of ['suspend', 'reactivate', 'suspend']) {
        await change(`/v1/licences/${id}/${verb}`)
        verbs.push(verb)
      }
      await pause(20)
    }
  }
  /** An installed product of an own licence. */
  const product = async () => {
    const { key: licenceKey } = await issue(randomUUID())
    const activation = await call<{ activation_id: string; token: string }>({
      method: 'post',
      path: '/v1/activations',
      body: { licence_key: licenceKey, fingerprint: randomUUID(), host: 'localhost', product_version: '1' },
      bearer: '',
    })
    expect(activation.status).toBe(201)
    const { activation_id: activationId } = activation.body
    for (let { token } = activation.body; state.running; await pause(50)) {
      const answer = await call<{ token: string }>({
        method: 'post',
        path: `/v1/activations/${activationId}/refresh`,
        body: { host: 'localhost', product_version: '1' },
        bearer: token,
      })
      expect(answer.status).toBe(200)
      token = answer.body.token
      refreshed.push(activationId)
    }
  }
  const running = Promise.all([...Array.from({ length: 4 }, backend), product(), product()])
  running.catch(() => (state.running = false))

  return {
    accountId: accountId!,
    appId: appId!,
    planId: plan.id,
    key: key!,
    statuses,
    changes,
    issued,
    call,
    /** Where the vendor sends its calls. */
    get base() {
      return bases[0]!
    },
    get longestMs() {
      return longestMs
    },
    /** Waits for so many more changes and refreshes. */
    more: async (count: number) => {
      const [after, refreshes] = [changes.length + count, refreshed.length + 2]
      await eventually(() => changes.length >= after && refreshed.length >= refreshes, { timeoutMs: 120_000 })
    },
    stop: async () => {
      state.running = false
      await running
    },
  }
}

export type MovingVendor = Awaited<ReturnType<typeof givenMovingVendor>>

/** Checks that each change has happened once, that its repetition has its answer, and that each event has arrived. */
export async function expectMovedWhole(
  vendor: MovingVendor,
  receiver: HttpsReceiver,
  there: string,
): Promise<void> {
  const { call, changes, issued, accountId, appId } = vendor
  expect((await call({ method: 'get', path: '/v1/account' })).status).toBe(200)
  expect(vendor.base).toBe(there)
  const ids = new Set<string>()
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: ApiAnswer<{ data: { id: string }[]; next_cursor: string | null }> = await call({
      method: 'get',
      path: `/v1/apps/${appId}/licences?limit=200${cursor && `&cursor=${cursor}`}`,
    })
    for (const { id } of page.body.data) ids.add(id)
    cursor = page.body.next_cursor
  }
  // Each licence has an idempotency key of its own, so a change that took effect twice would make one more.
  expect([...ids].toSorted()).toEqual([...issued.keys()].toSorted())
  for (const [id, { verbs }] of issued) {
    const history = await call<{ data: { type: string }[] }>({
      method: 'get',
      path: `/v1/licences/${id}/history`,
    })
    expect(history.body.data.map(({ type }) => type).toReversed()).toEqual([
      'issued',
      ...verbs.map((verb) => (verb === 'suspend' ? 'suspended' : 'reactivated')),
    ])
  }
  for (const { sent, answer } of changes.filter((_, at) => at % 7 === 0)) {
    const again = await call<Record<string, unknown>>(sent)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(again.body['id']).toBe(answer['id'])
  }
  const latest = await call<{ next_after: number }>({ method: 'get', path: '/v1/events?after=latest' })
  const count = latest.body.next_after
  const verbs = [...issued.values()].flatMap((licence) => licence.verbs)
  expect(count).toBe(verbs.length)
  await eventually(
    () => {
      const first = new Map<number, string>()
      for (const { body } of receiver.requests) {
        const event = JSON.parse(body.toString()) as { id: string; sequence: number; account_id: string }
        if (event.account_id !== accountId) continue
        expect(first.get(event.sequence) ?? event.id).toBe(event.id)
        first.set(event.sequence, event.id)
      }
      expect([...first.keys()].toSorted((a, b) => a - b)).toEqual(
        Array.from({ length: count }, (_, at) => at + 1),
      )
      expect(new Set(first.values()).size).toBe(count)
    },
    { timeoutMs: 60_000 },
  )
}
