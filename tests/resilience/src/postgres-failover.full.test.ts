import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad } from '@licensing/test-support/load'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { missingPrograms, startPatroniCluster, type Member } from './patroni.ts'

if (missingPrograms) {
  process.stdout.write(`failover of PostgreSQL is not tested: this machine lacks ${missingPrograms}\n`)
}

interface Fault {
  begin: (leader: Member) => void
  end: (leader: Member) => unknown
  forMs: number
  /** The former leader continues, so services may not find the next one before the fault ends. */
  hasTwoLeaders?: true
}

// Longer than `statement_timeout`, so that commits that wait for the standby are cancelled as soon as the leader continues.
const forMs = 35_000

const faults: Record<string, Fault> = {
  'is killed': { begin: (leader) => leader.kill(), end: (leader) => leader.start(), forMs },
  freezes: { begin: (leader) => leader.freeze(), end: (leader) => leader.thaw(), forMs },
  'is cut from the network': {
    begin: (leader) => leader.cutNetwork(),
    end: (leader) => leader.reconnect(),
    forMs,
  },
  'has a Patroni that freezes': {
    begin: (leader) => leader.freezePatroni(),
    end: (leader) => leader.thaw(),
    // Commits wait from the promotion on.
    forMs: 60_000,
    hasTwoLeaders: true,
  },
}

/** Writes through each service, until all are acknowledged. */
async function untilWritten({ api, appId }: Stack, endpoint: string): Promise<void> {
  const app = `/v1/apps/${appId}`
  const plan = { name: 'Written', code: `p-${randomUUID()}` }
  const sale = { sale_id: randomUUID(), amount: 100, currency: 'eur', occurred_at: new Date().toISOString() }
  const post = (path: string, body: object) => {
    const headers = { 'idempotency-key': randomUUID() }
    return eventually(
      async () => {
        const sent = api.post<{ id: string }>(path, { headers, body })
        const answer = await Promise.race([sent, pause(2_000)])
        expect(answer?.status, JSON.stringify(answer?.body)).toBeLessThan(300)
        return answer!.body.id
      },
      { intervalMs: 100 },
    )
  }
  const planId = await post(`${app}/plans`, plan)
  await Promise.all([
    post(`${app}/licences`, { external_ref: randomUUID(), plan_id: planId }),
    post(`${app}/sale-events`, { ...sale, external_ref: randomUUID(), plan_id: planId }),
    post(`${app}/webhook-endpoints`, { url: endpoint, subscribed_events: 'licence.expired' }),
  ])
}

test.skipIf(missingPrograms !== undefined)(
  'while PostgreSQL fails over, nothing acknowledged is lost, no event has two sequences, and services write to the next leader within 10 seconds',
  { timeout: 900_000 },
  async () => {
    await using cluster = await startPatroniCluster()
    await using receiver = await startHttpsReceiver()
    await using stack = await startStack({
      receiver,
      postgresUrl: cluster.url,
      environment: { WEBHOOK_BACKOFF_SECONDS: '1', RATE_LIMIT_PER_MINUTE: '10000000', LOG_LEVEL: 'warn' },
    })
    const processes = Object.values(stack.processes).flat()
    const pids = processes.map(({ pid }) => pid)
    await using load = await startLoad(stack, receiver)
    for (const [what, { begin, end, forMs, hasTwoLeaders }] of Object.entries(faults)) {
      await load.more(200)
      const leader = await cluster.leader()
      const next = cluster.standbyOf(leader)
      const beganMs = performance.now()
      const seconds = (since: number) => ((performance.now() - since) / 1000).toFixed(1)
      begin(leader)
      await eventually(() => next.write(), { intervalMs: 50, timeoutMs: 120_000 })
      process.stdout.write(`the leader ${what}: a standby accepts writes after ${seconds(beganMs)} s\n`)
      const leadsMs = performance.now()
      if (!hasTwoLeaders) {
        await untilWritten(stack, receiver.url('/other'))
        process.stdout.write(`all services write to it ${seconds(leadsMs)} s later\n`)
        expect(performance.now() - leadsMs, what).toBeLessThan(10_000)
        await load.more(200)
      }
      await eventually(() => performance.now() - beganMs > forMs, { timeoutMs: forMs })
      await end(leader)
      await cluster.untilComplete()
      expect(await cluster.leader(), `after the leader ${what}`).toBe(next)
      await untilWritten(stack, receiver.url('/other'))
    }
    await load.stop()
    expect(load.failures.filter(({ status }) => status !== 503 && status !== 0)).toEqual([])
    await expectNothingLost(stack, receiver, load)
    const sent = receiver.requests.map(
      ({ body }) => JSON.parse(body.toString()) as { id: string; sequence: number },
    )
    const ids = new Set(sent.map(({ id }) => id))
    expect(new Set(sent.map(({ sequence }) => sequence)).size).toBe(ids.size)
    expect(new Set(sent.map(({ id, sequence }) => `${id} ${sequence}`)).size).toBe(ids.size)
    for (const each of processes) await each.untilReady()
    expect(processes.map(({ pid }) => pid)).toEqual(pids)
  },
)
