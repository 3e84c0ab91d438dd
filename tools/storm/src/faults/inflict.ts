import postgres from 'postgres'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Direction } from '@licensing/test-support/faulty-proxy'
import type { Answer } from '@licensing/test-support/https-receiver'
import { copyNatsStore, natsDamage } from '@licensing/test-support/nats-damage'
import type { StormStack } from '../stack.ts'
import type { Fault, FaultKind } from './schedule.ts'

/** How each receiver answers requests at present, by its name. If a name is absent, it answers 200. */
export type ReceiverAnswers = Map<string, () => Answer>

interface FaultContext {
  stack: StormStack
  receiverAnswers: ReceiverAnswers
  fault: Fault
}

/** Starts a fault, and returns a function that ends it. */
type Inflict = (context: FaultContext) => Promise<() => Promise<void>>

const member = ({ stack, fault }: FaultContext) => stack.members.get(fault.target)!
const link = ({ stack, fault }: FaultContext) => stack.links.get(fault.target)!
const directions: Direction[] = ['both', 'to-client', 'to-server']
const direction = ({ fault }: FaultContext) => directions[Math.floor(fault.choice * directions.length)]!

const freezeMember: Inflict = async (context) => {
  member(context).freeze()
  return async () => member(context).resume()
}

const stall: Inflict = async (context) => {
  link(context).swallow(direction(context))
  return async () => link(context).flow()
}

const toProcessor = async (
  { stack }: FaultContext,
  method: string,
  path: string,
  body?: object,
): Promise<void> => {
  const response = await fetch(`${stack.processor.url}/_sim/${path}`, {
    method,
    signal: AbortSignal.timeout(5_000),
    ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
  })
  await response.arrayBuffer()
}

const processorRule =
  (rule: object): Inflict =>
  async (context) => {
    await toProcessor(context, 'POST', 'delivery-rules', rule)
    return async () => {
      await toProcessor(context, 'POST', 'release', { order: 'reversed' })
      await toProcessor(context, 'DELETE', 'delivery-rules')
    }
  }

const processorFault =
  (faults: object[]): Inflict =>
  async (context) => {
    await toProcessor(context, 'POST', 'faults', faults[Math.floor(context.fault.choice * faults.length)])
    return () => toProcessor(context, 'DELETE', 'faults')
  }

const receiverFault =
  (answer: (fault: Fault) => Answer): Inflict =>
  async ({ receiverAnswers, fault }) => {
    receiverAnswers.set(fault.target, () => answer(fault))
    return async () => void receiverAnswers.delete(fault.target)
  }

export const inflict: Record<FaultKind, Inflict> = {
  kill: async (context) => {
    await member(context).kill()
    return () => member(context).start()
  },
  terminate: async (context) => {
    await member(context).terminate()
    return () => member(context).start()
  },
  freeze: freezeMember,
  'freeze past the lease': freezeMember,
  'kill postgres': async ({ stack }) => {
    await stack.postgres.kill()
    return () => stack.postgres.start()
  },
  'freeze postgres': async ({ stack }) => {
    await signalTree(stack.postgres.pid, 'SIGSTOP')
    return () => signalTree(stack.postgres.pid, 'SIGCONT')
  },
  'restart postgres': async ({ stack }) => {
    await stack.postgres.stop()
    return () => stack.postgres.start()
  },
  'terminate connections': async ({ stack }) => {
    const sql = postgres(stack.postgres.url(), { max: 1, connect_timeout: 5 })
    await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid()`.catch(() => undefined)
    await sql.end({ timeout: 1 }).catch(() => undefined)
    return async () => undefined
  },
  'kill nats': async ({ stack }) => {
    await stack.nats.kill()
    return () => stack.nats.start()
  },
  'freeze nats': async ({ stack }) => {
    await signalTree(stack.nats.pid, 'SIGSTOP')
    return () => signalTree(stack.nats.pid, 'SIGCONT')
  },
  'restart nats': async ({ stack }) => {
    await stack.nats.stop()
    return () => stack.nats.start()
  },
  'wipe nats': async ({ stack }) => {
    await natsDamage.wipe(stack.nats)
    return () => stack.nats.start()
  },
  'set nats back': async ({ stack }) => {
    const copy = await copyNatsStore(stack.nats)
    return async () => {
      await natsDamage.setBack(stack.nats, copy)
      await stack.nats.start()
    }
  },
  'flip a bit of nats': async ({ stack }) => {
    await natsDamage.flipBit(stack.nats)
    return () => stack.nats.start()
  },
  'stall postgres': stall,
  'stall nats': stall,
  'stall link': stall,
  'hold link': async (context) => {
    link(context).hold(direction(context))
    return async () => link(context).flow()
  },
  'delay link': async (context) => {
    link(context).delay(20 + Math.round(context.fault.choice * 1_500))
    return async () => link(context).flow()
  },
  'cut link': async (context) => {
    link(context).cutAfter(1 + Math.round(context.fault.choice * 600))
    return async () => link(context).reset()
  },
  'reset link': async (context) => {
    link(context).reset()
    return async () => undefined
  },
  'refuse link': async (context) => {
    link(context).refuse()
    return async () => link(context).flow()
  },
  'slow receiver': receiverFault(({ choice }) => ({ delayMs: 500 + choice * 7_000 })),
  'flapping receiver': receiverFault(({ choice }) => {
    const each: Answer[] = [{ status: 503 }, 'reset', { status: 500 }, {}, { status: 302 }]
    return each[Math.floor((((Date.now() / 700) % 1) + choice) * each.length) % each.length]!
  }),
  'dead receiver': async (context) => {
    link(context).refuse()
    return async () => link(context).flow()
  },
  'processor repeats': processorRule({ action: 'duplicate', times: 3 }),
  'processor reorders': processorRule({ action: 'hold' }),
  'processor drops': processorRule({ action: 'drop' }),
  'processor delays': processorRule({ action: 'delay', delay_ms: 3_000 }),
  'processor fails': processorFault([
    { answer: '500' },
    { answer: '503' },
    { answer: '429' },
    { answer: '409' },
    { answer: 'hang' },
    { answer: 'timeout', delay_ms: 2_000 },
    { answer: 'reset' },
  ]),
  'processor loses answers': processorFault([
    { answer: 'reset', applied: true },
    { answer: '500', applied: true },
    { answer: 'hang', applied: true },
  ]),
  'freeze processor': async ({ stack }) => {
    process.kill(stack.processor.pid, 'SIGSTOP')
    return async () => void process.kill(stack.processor.pid, 'SIGCONT')
  },
  'kill everything': async ({ stack }) => {
    const all = [...stack.members.values()]
    await Promise.all([...all.map((each) => each.kill()), stack.postgres.kill(), stack.nats.kill()])
    return async () => {
      await Promise.all([stack.postgres.start(), stack.nats.start()])
      await Promise.all(all.map((each) => each.start()))
    }
  },
}

const run = promisify(execFile)

/** Sends a signal to a process and all its descendants, because PostgreSQL has a process for each connection. */
async function signalTree(pid: number, signal: NodeJS.Signals): Promise<void> {
  const { stdout } = await run('ps', ['-e', '-o', 'pid=,ppid='])
  const rows = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number) as [number, number])
  const tree = [pid]
  for (const parent of tree) {
    tree.push(...rows.filter(([child, of]) => of === parent && !tree.includes(child)).map(([child]) => child))
  }
  for (const each of tree) {
    try {
      process.kill(each, signal)
    } catch {
      // The process has ended meanwhile.
    }
  }
}
