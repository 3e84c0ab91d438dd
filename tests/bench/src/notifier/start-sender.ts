import { YOUNG_GENERATION } from '@licensing/local-servers/node-process'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { TestBed, Vendor } from './test-bed.ts'

/** A service that sends events, in a separate process. */
export interface Sender extends Disposable {
  /** Commits one event of a vendor. @returns its id, and when its transaction began, by the clock of `machineMs` */
  send(vendor: Vendor): Promise<{ id: string; atMs: number }>
  /** Commits events of a vendor at a rate, in transactions of 100. */
  flood(vendor: Vendor, perSecond: number): Flood
}

interface Flood {
  /** Ends the flood, and deletes unpublished events. */
  stop(): Promise<{ committedPerSecond: number; publishedPerSecond: number }>
}

export type Order =
  | { do: 'send'; number: number; vendor: Vendor }
  | { do: 'flood'; number: number; vendor: Vendor; perSecond: number }
  | { do: 'stop'; number: number }

/** Starts a sender on the servers of the bed, with its own database. */
export async function startSender(bed: TestBed): Promise<Sender> {
  await bed.sql`create database sender`
  const databaseUrl = new URL(bed.databaseUrl)
  databaseUrl.pathname = '/sender'
  const child = fork(new URL('sender.ts', import.meta.url), [databaseUrl.href, bed.natsUrl], {
    execArgv: [...process.execArgv, YOUNG_GENERATION],
  })
  await once(child, 'message')
  const waiting = new Map<number, (answer: never) => void>()
  child.on('message', (answer: { number: number }) => waiting.get(answer.number)?.(answer as never))
  let orders = 0
  const ask = async <Answer>(order: Order): Promise<Answer> => {
    const answer = await new Promise<Answer>((resolve) => {
      waiting.set(order.number, resolve)
      child.send(order)
    })
    waiting.delete(order.number)
    return answer
  }
  return {
    send: (vendor) => ask({ do: 'send', number: (orders += 1), vendor }),
    flood(vendor, perSecond) {
      const number = (orders += 1)
      child.send({ do: 'flood', number, vendor, perSecond } satisfies Order)
      return { stop: () => ask({ do: 'stop', number }) }
    },
    [Symbol.dispose]: () => child.disconnect(),
  }
}
