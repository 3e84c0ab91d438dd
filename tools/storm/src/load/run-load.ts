import { setTimeout as sleep } from 'node:timers/promises'
import { randomOf } from '../random.ts'
import * as catalog from './catalog.ts'
import { clientOf, type Action } from './client.ts'
import * as licences from './licences.ts'
import * as payments from './payments.ts'
import * as products from './products.ts'
import * as reading from './reading.ts'
import type { World } from './world.ts'

/** Each action with its weight. */
const actions: [number, Action][] = [
  [14, licences.issue],
  [26, licences.changeLicence],
  [5, licences.importLicences],
  [3, licences.migrate],
  [6, products.activate],
  [4, products.tryOut],
  [8, products.useActivation],
  [2, products.removeMachines],
  [1.5, catalog.makePlan],
  [1.5, catalog.define],
  [1.5, catalog.changeKeys],
  [1, catalog.changeEndpoints],
  [1, catalog.rotateSecret],
  [2, catalog.sendTestEvent],
  [5, payments.buy],
  [6, payments.afterwards],
  [4, payments.sell],
  [5, payments.afterSale],
  [6, reading.readFeed],
  [1, reading.walkLicences],
  [5, reading.look],
]
const weights = Object.fromEntries(actions.map(([weight], number) => [`${number}`, weight]))

const clientCount = 9
const minPauseMs = 20
const maxPauseMs = 250

/** Starts the concurrent clients; `stop` returns when the last of them has its answer. */
export function startLoad(world: World, seed: number): { stop(): Promise<void> } {
  const worker = async (number: number, act?: Action, pauseMs?: number) => {
    const random = randomOf(seed * 1_000 + number)
    const client = clientOf(world, world.shops[number % world.shops.length]!, random)
    while (world.running) {
      await (act ?? actions[Number(random.weighted(weights))]![1])(client)
      await sleep(pauseMs ?? random.between(minPauseMs, maxPauseMs))
    }
  }
  const workers = [
    ...Array.from({ length: clientCount }, (_, number) => worker(number)),
    // Only one client changes the plans of each vendor, one its endpoints, and one the cap, so that the checks know the final values.
    ...world.shops.map((_, number) => worker(number + 3 * clientCount, catalog.changePlan, 2_500)),
    ...world.shops.map((_, number) => worker(number + 9 * clientCount, catalog.editEndpoint, 500)),
    worker(world.shops.length - 1 + 6 * clientCount, catalog.setCap, 4_000),
  ]
  const running = Promise.all(workers)
  return {
    stop: async () => {
      world.running = false
      await running
      // A pause without an answer may have been executed after the request that ended it.
      await Promise.all(world.shops.map((shop) => catalog.resumeAll(clientOf(world, shop, randomOf(seed)))))
    },
  }
}
