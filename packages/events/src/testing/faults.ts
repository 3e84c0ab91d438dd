import type { FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { setTimeout as sleep } from 'node:timers/promises'

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

type Fault = (proxy: FaultyProxy, ms: number, random: () => number) => Promise<void>

/** Faults of a connection. Each leaves the proxy as it was before. */
export const faults: Record<string, Fault> = {
  async stall(proxy, ms) {
    proxy.swallow('to-client')
    await sleep(ms)
    proxy.flow()
  },
  async 'stall both ways'(proxy, ms) {
    proxy.swallow()
    await sleep(ms)
    proxy.flow()
  },
  async 'stall of sent bytes'(proxy, ms) {
    proxy.swallow('to-server')
    await sleep(ms)
    proxy.flow()
  },
  async reset(proxy) {
    proxy.reset()
  },
  async 'resets in a row'(proxy, ms) {
    for (let count = 0; count < 5; count += 1) {
      proxy.reset()
      await sleep(ms / 10)
    }
  },
  async 'late bytes'(proxy, ms) {
    proxy.hold()
    await sleep(ms)
    proxy.flow()
  },
  async 'late bytes, then a reset'(proxy, ms) {
    proxy.hold()
    await sleep(ms)
    proxy.reset()
    proxy.flow()
  },
  async delay(proxy, ms, random) {
    proxy.delay(random() * 40)
    await sleep(ms)
    proxy.flow()
  },
  async 'cut within a frame'(proxy, ms, random) {
    proxy.cutAfter(Math.floor(random() * 5_000))
    await sleep(ms)
  },
  async refuse(proxy, ms) {
    proxy.refuse()
    await sleep(ms)
    proxy.flow()
  },
}

/** Causes random faults on random proxies, one after another, until `rounds` are over. @returns the faults */
export async function whenFaulty(
  proxies: FaultyProxy[],
  { rounds, seed, maxMs }: { rounds: number; seed: number; maxMs: number },
): Promise<string[]> {
  const random = randomFrom(seed)
  const names = Object.keys(faults)
  const done: string[] = []
  for (let round = 0; round < rounds; round += 1) {
    const name = names[Math.floor(random() * names.length)]!
    const proxy = proxies[Math.floor(random() * proxies.length)]!
    // Most faults are short.
    const ms = Math.floor(random() ** 2 * maxMs)
    done.push(`${name} ${ms} ms`)
    await faults[name]!(proxy, ms, random)
    await sleep(random() * 200)
  }
  for (const proxy of proxies) proxy.flow()
  return done
}
