import { connect } from '@licensing/database/connect'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad } from '@licensing/test-support/load'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { connect as openSocket } from 'node:net'
import { expect, test } from 'vitest'

const environment = { WEBHOOK_BACKOFF_SECONDS: '1', RATE_LIMIT_PER_MINUTE: '10000000' }
const replicas = { catalog: 2, licensing: 2, billing: 2, notifier: 2, gateway: 2 }

const limit = (pid: number, limits: string[]) =>
  execFileSync('prlimit', ['--pid', String(pid), ...limits], { stdio: 'ignore' })

/** A process with these settings uses up its memory after SIGUSR2, while it does its work. */
const leaking = {
  NODE_OPTIONS: `--max-old-space-size=200 --import=data:text/javascript,${encodeURIComponent(`
    process.on('SIGUSR2', () => {
      const kept = []
      setInterval(() => kept.push(Array.from({ length: 100_000 }, (_, at) => ({ at }))), 5)
    })`)}`,
}

test('processes whose memory is used up under load end, are started again, and nothing is lost', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment, replicas })
  const { catalog, licensing, billing, notifier } = stack.processes
  const victims = [licensing[0]!, notifier[0]!, catalog[0]!, billing[0]!]
  for (const victim of victims) await victim.start(leaking)
  await using load = await startLoad(stack, receiver)
  for (const victim of victims) {
    await load.more(50)
    const { pid } = victim
    process.kill(pid, 'SIGUSR2')
    await eventually(() => !isAlive(pid))
    expect(await victim.log()).toContain('heap out of memory')
    await load.more(50)
    await victim.start()
  }
  await load.more(100)
  await load.stop()
  expect(load.failures.filter(({ status }) => status !== 503)).toEqual([])
  await expectNothingLost(stack, receiver, load)
})

/** Whether the process runs. A process that has ended stays in the table until its parent has asked for it. */
function isAlive(pid: number): boolean {
  if (!existsSync(`/proc/${pid}`)) return false
  return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
}

test('processes without free file descriptors answer on the connections that they have, and recover when there are some', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment })
  await using load = await startLoad(stack, receiver)
  await load.more(200)
  const processes = Object.values(stack.processes).flat()
  for (const { pid } of processes) {
    limit(pid, [`--nofile=${readdirSync(`/proc/${pid}/fd`).length}:`])
  }
  const [gateway] = stack.processes.gateway
  const { hostname, port } = new URL(gateway!.operationsUrl)
  const sockets = Array.from({ length: 100 }, () => openSocket(Number(port), hostname).on('error', () => {}))
  // The notifier needs new connections to the receiver.
  await receiver.pause()
  await receiver.resume()
  await load.more(400)
  // It closes the connections that it has no descriptor for.
  expect(sockets.some(({ destroyed }) => destroyed)).toBe(true)
  for (const socket of sockets) socket.destroy()
  for (const { pid } of processes) limit(pid, ['--nofile=4096:'])
  const failed = load.failures.length
  await load.more(200)
  await load.stop()
  expect(load.failures.slice(failed + 20)).toEqual([])
  expect(load.failures.filter(({ status }) => ![0, 503].includes(status))).toEqual([])
  await expectNothingLost(stack, receiver, load)
  for (const process of processes) await process.untilReady()
  // A fault of this machine is no attempt of a delivery: vendors do not see it, and no retry is used up.
  const sql = connect(stack.databaseUrls.notifier, { name: 'test', max: 1 })
  expect(await sql`select error from attempts where error like '%EMFILE%'`).toEqual([])
  await sql.end()
})
