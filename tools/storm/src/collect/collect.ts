import * as queries from './queries.ts'
import type { World } from '../load/world.ts'
import type { Arrival, Outcome } from '../outcome.ts'
import type { StormStack } from '../stack/storm-stack.ts'
import type { Databases } from './databases.ts'
import { readLags } from './settled.ts'
import { readEvents, readPlans, readProcessor, tryKeys } from './through-api.ts'

/** The data that the storm itself has recorded. */
export interface Seen {
  world: World
  accepted: Set<number>
  startMs: number
  ready: Outcome['ready']
  crashes: Outcome['crashes']
}

/** Reads all data of the system. Call it when no work is pending. */
export async function collect(stack: StormStack, databases: Databases, seen: Seen): Promise<Outcome> {
  const { catalog, licensing: licences, billing, notifier } = databases.of
  const { world } = seen
  const [catalogPlans, copies] = [
    await queries.listCatalogPlans(catalog),
    await queries.listPlanRows(licences),
  ]
  const ours = new Set(stack.vendors.map(({ accountId }) => accountId))
  const keys = (await queries.listApiKeys(catalog)).filter(({ accountId }) => ours.has(accountId))
  const outboxes = await Promise.all(
    (['catalog', 'licensing', 'billing'] as const).map((name) =>
      queries.countOutbox(databases.of[name], name),
    ),
  )
  return {
    accounts: stack.vendors.map(({ accountId, appId }) => ({ accountId, appId })),
    sent: world.caller.sent,
    feedReads: world.feedReads,
    walks: world.walks,
    licences: await queries.listLicences(licences),
    history: await queries.listHistory(licences),
    plans: (await Promise.all(stack.vendors.map((vendor) => readPlans(stack, vendor)))).flat(),
    planCopies: catalogPlans.map(({ id, status, version }) => {
      const copy = copies.find((each) => each.id === id)
      return {
        planId: id,
        catalog: { status, version },
        licensing: copy ? { status: copy.status, version: copy.version } : null,
      }
    }),
    definitions: await queries.listDefinitions(catalog),
    activations: await queries.listActivations(licences),
    leases: await queries.countLeases(licences),
    trials: await queries.listTrials(licences),
    apiKeys: await tryKeys(stack, keys, keyTexts(world)),
    capMinor: await queries.listCaps(billing),
    events: (await Promise.all(stack.vendors.map((vendor) => readEvents(stack, vendor)))).flat(),
    endpoints: (await queries.listEndpoints(notifier)).map((each) => ({
      ...each,
      dead: each.url.includes('/dead/'),
    })),
    deliveries: await queries.listDeliveries(notifier),
    arrivals: arrivals(stack, seen.accepted),
    sessions: await queries.listSessions(billing),
    sales: await queries.listSales(billing),
    payments: await queries.listPayments(billing),
    refunds: await queries.listRefunds(billing),
    fees: await queries.listFees(billing),
    provisions: await queries.listProvisions(licences),
    revocations: await queries.listRevocations(licences),
    processor: await readProcessor(stack.processor.url),
    counters: [
      ...(await queries.countLicensing(licences)),
      ...(await queries.countBilling(billing)),
      ...(await queries.countSequences(notifier)),
    ],
    leftovers: [
      ...outboxes,
      ...(await queries.countUnhandled(billing)),
      await queries.countDeadLetters(licences, 'licensing'),
      await queries.countDeadLetters(notifier, 'the notifier'),
    ],
    lags: await readLags(databases),
    startMs: seen.startMs,
    ready: seen.ready,
    crashes: seen.crashes,
  }
}

function keyTexts({ caller }: World): Map<string, string> {
  const made = caller.sent.filter(
    ({ asked, answered }) => asked.do === 'create key' && answered === 'acknowledged',
  )
  return new Map(made.map(({ body }) => [String(body['id']), String(body['key'])]))
}

function arrivals({ receiver, links }: StormStack, accepted: Set<number>): Arrival[] {
  // The path names the link to the receiver. The endpoint's URL has the port of that link.
  return receiver.requests.map(({ path, headers, body }, index) => {
    const name = path.split('/')[1] === 'dead' ? 'steady' : path.split('/')[1]!
    return {
      url: `https://localhost:${links.get(`notifier>${name}`)!.port}${path}`,
      eventId: String(headers['webhook-id']),
      body: body.toString('utf8'),
      signature: String(headers['webhook-signature']),
      accepted: accepted.has(index),
    }
  })
}
