import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { eventTypes, type SimulatedEvent } from './objects/event.ts'
import { startWorld, vendor, type World } from '../test/support.ts'
import { checkTypes, type Typed } from '../test/check-types.ts'
import { runAllFeatures } from '../test/all-features.ts'

const folder = new URL('../fixtures/events/', import.meta.url)

const typedEvent = (event: SimulatedEvent): Typed => ({ type: `EventOf<'${event.type}'>`, value: event })
const typedObject = (value: Members): Typed => ({ type: `ObjectOf['${String(value['object'])}']`, value })

/** The value with its type. For a list, its members with their types. */
function typedAnswer(value: Members): Typed[] {
  if (value['object'] !== 'list') return [typedObject(value)]
  return [typedObject({ ...value, data: [] }), ...(value['data'] as Members[]).map(typedObject)]
}

test('events, objects and recorded events have the types of the official client, which detect a single fault in each', async () => {
  await using world = await startWorld()
  await runAllFeatures(world)
  const events = await readEvents(world)
  expect([...new Set(events.map(({ type }) => type))].toSorted()).toEqual([...eventTypes].toSorted())
  const objects = (await readObjects(world)).flatMap(typedAnswer)
  const recorded = readdirSync(folder).map((file) =>
    typedEvent(JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as SimulatedEvent),
  )
  const correct = [...events.map(typedEvent), ...objects, ...recorded]

  const samples = new Map(objects.map(({ type, value }) => [type, value as Members]))
  samples.delete("ObjectOf['list']")
  const inObjects = [...samples].flatMap(([type, value]) =>
    seededFaults(value).map((fault) => ({ type, ...fault })),
  )
  const inEvents = [...new Map(events.map((event) => [event.type, event])).values()].map((event) => {
    const object = { ...event.data.object, unheard_of: 1 }
    return { ...typedEvent({ ...event, data: { ...event.data, object } }), what: 'a member too many' }
  })
  const wrong = [...inObjects, ...inEvents]
  expect([objects.length > 100, recorded.length > 20, wrong.length > 70]).toEqual([true, true, true])

  const complaints = await checkTypes([...correct, ...wrong])
  const found = correct.flatMap(({ type }, index) => complaints[index]!.map((text) => `${type}: ${text}`))
  expect(found).toEqual([])
  const unnoticed = wrong.filter((_, index) => complaints[correct.length + index]!.length === 0)
  expect(unnoticed.map(({ type, what }) => `${type}: ${what}`)).toEqual([])
})

/** Objects for which Stripe's types list the possible statuses. */
const listedStatus = ['charge', 'checkout.session', 'dispute', 'invoice', 'payment_intent', 'subscription']

/** Values that Stripe would never send, each with a single fault. */
function seededFaults(members: Members): { what: string; value: Members }[] {
  const { id, object, ...rest } = members
  const [required = ''] = Object.keys(rest)
  return [
    { what: 'a member that Stripe does not know', value: { ...members, unheard_of: 1 } },
    { what: 'no id', value: { object, ...rest } },
    { what: 'a null for an id', value: { ...members, id: null } },
    { what: `${required} of another type`, value: { id, object, ...rest, [required]: { unheard_of: 1 } } },
    { what: 'another object’s name', value: { ...members, object: 'unheard_of' } },
    ...(listedStatus.includes(String(object))
      ? [{ what: 'a misspelled status', value: { ...members, status: 'suceeded' } }]
      : []),
  ]
}

type Members = Record<string, unknown>
/** All emitted events, whether or not an endpoint wanted them. */
async function readEvents(world: World): Promise<SimulatedEvent[]> {
  const { data } = await get<{ data: { event: SimulatedEvent }[] }>(world, '/_sim/events')
  return data.map(({ event }) => event)
}

/** All objects of the simulator, and two answers that are made from them: an account and a list. */
async function readObjects(world: World): Promise<Members[]> {
  type State = { collections: Record<string, { object: Members }[]> }
  const { collections } = await get<State>(world, '/_sim/state')
  const stored = Object.values(collections).flatMap((each) => each.map(({ object }) => object))
  const answers = ['/v1/application_fees', `/v1/accounts/${vendor}`].map((path) => get<Members>(world, path))
  return [...stored, ...(await Promise.all(answers))]
}

async function get<Body>(world: World, path: string): Promise<Body> {
  const response = await fetch(`${world.simulator.url}${path}`, {
    headers: { authorization: 'Bearer sk_test_simulated' },
  })
  return (await response.json()) as Body
}
