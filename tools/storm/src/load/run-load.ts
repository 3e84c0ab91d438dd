import { setTimeout as sleep } from 'node:timers/promises'
import { randomOf } from '../random.ts'
import { changeKeys, changePlan, define, makePlan } from './catalog.ts'
import { clientOf, type Action } from './client.ts'
import { changeLicence, importLicences, issue, migrate } from './licences.ts'
import { afterwards, buy, sell, setCap } from './payments.ts'
import { activate, tryOut, useActivation } from './products.ts'
import { changeEndpoints, look, readFeed, rotateSecret, sendTestEvent, walkLicences } from './reading.ts'
import type { World } from './world.ts'

const actions: Record<string, { weight: number; act: Action }> = {
  issue: { weight: 14, act: issue },
  changeLicence: { weight: 26, act: changeLicence },
  importLicences: { weight: 5, act: importLicences },
  migrate: { weight: 3, act: migrate },
  activate: { weight: 6, act: activate },
  tryOut: { weight: 4, act: tryOut },
  useActivation: { weight: 8, act: useActivation },
  makePlan: { weight: 1.5, act: makePlan },
  define: { weight: 1.5, act: define },
  changeKeys: { weight: 1.5, act: changeKeys },
  changeEndpoints: { weight: 1, act: changeEndpoints },
  rotateSecret: { weight: 1, act: rotateSecret },
  sendTestEvent: { weight: 2, act: sendTestEvent },
  buy: { weight: 5, act: buy },
  afterwards: { weight: 6, act: afterwards },
  sell: { weight: 4, act: sell },
  readFeed: { weight: 6, act: readFeed },
  walkLicences: { weight: 1, act: walkLicences },
  look: { weight: 5, act: look },
}
const weights = Object.fromEntries(Object.entries(actions).map(([name, { weight }]) => [name, weight]))

const clientCount = 9
const minPauseMs = 20
const maxPauseMs = 250

/** Starts the concurrent clients; `stop` returns when the last of them has its answer. */
export function startLoad(world: World, seed: number): { stop(): Promise<void> } {
  const worker = async (number: number, act?: Action, pauseMs?: number) => {
    const random = randomOf(seed * 1_000 + number)
    const client = clientOf(world, world.shops[number % world.shops.length]!, random)
    while (world.running) {
      await (act ?? actions[random.weighted(weights)]!.act)(client)
      await sleep(pauseMs ?? random.between(minPauseMs, maxPauseMs))
    }
  }
  const workers = [
    ...Array.from({ length: clientCount }, (_, number) => worker(number)),
    // Only one client changes the plans of each vendor, and one the cap, so that the checks know the final values.
    ...world.shops.map((_, number) => worker(number + 3 * clientCount, changePlan, 2_500)),
    worker(world.shops.length - 1 + 6 * clientCount, setCap, 4_000),
  ]
  const running = Promise.all(workers)
  return {
    stop: async () => {
      world.running = false
      await running
    },
  }
}
