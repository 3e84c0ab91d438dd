import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from './connect.ts'
import { isLockTimeout } from './problems.ts'
import { setLockTimeout } from './patience-queries.ts'

interface PatienceOptions {
  /** Longest wait for a lock with a connection in hand, in milliseconds: longer than what others usually take. */
  usualMs?: number
  /** The same of a transaction that has met a lock before. */
  againMs?: number
  /** When to give up, in milliseconds. */
  mostMs?: number
  /** How many that have met a lock before may try at a time. */
  triesAtOnce?: number
}

/** Runs transactions that may meet a lock which is held for long, without a connection in hand while they wait. */
export type Patience = <T>(begin: (hurry: Hurry) => Promise<T>) => Promise<T>

/** Called first in the transaction. */
export type Hurry = (tx: Sql) => void

/**
 * A transaction that meets a lock which is held for long, such as those of a large archive, ends at once, so that its
 * connection is free for others, and begins again a little later. Those that wait so take turns of a few at a time.
 *
 * @throws the database's 55P03 where the lock is held for longer than `mostMs`
 * @example await patience((hurry) => transaction(sql, async (tx) => { hurry(tx); await tx`update …` }))
 */
export function createPatience(options: PatienceOptions = {}): Patience {
  const { usualMs = 30, againMs = 10, mostMs = 4_000, triesAtOnce = 2 } = options
  const turns: (() => void)[] = []
  let trying = 0
  const inTurn = async <T>(work: () => Promise<T>): Promise<T> => {
    if (trying >= triesAtOnce) await new Promise<void>((resolve) => turns.push(resolve))
    else trying += 1
    try {
      return await work()
    } finally {
      const next = turns.shift()
      if (next) next()
      else trying -= 1
    }
  }
  return async (begin) => {
    const giveUpMs = performance.now() + mostMs
    let pauseMs = 10
    let attempt = () => begin(hurryOf(usualMs))
    for (;;) {
      try {
        return await attempt()
      } catch (error) {
        if (!isLockTimeout(error) || performance.now() >= giveUpMs) throw error
      }
      await sleep(pauseMs * (0.5 + Math.random()))
      pauseMs = Math.min(pauseMs * 2, 250)
      attempt = () => inTurn(() => begin(hurryOf(againMs)))
    }
  }
}

function hurryOf(lockTimeoutMs: number): Hurry {
  return (tx) => {
    // Sent with the statement that follows, whose failure it shares.
    setLockTimeout(tx, lockTimeoutMs).catch(() => {})
  }
}
