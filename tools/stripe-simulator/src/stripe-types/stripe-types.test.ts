import { readdirSync, readFileSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { eventTypes, type SimulatedEvent } from '../objects/event.ts'
import { startWorld, vendor, type World } from '../test-support.ts'
import { checkTypes, type Typed } from './check-types.ts'
import { runAllFeatures } from './all-features.ts'

const folder = new URL('../../fixtures/', import.meta.url)
const readFixture = (path: string): unknown => JSON.parse(readFileSync(new URL(path, folder), 'utf8'))

const typedEvent = (event: SimulatedEvent): Typed => ({ type: `EventOf<'${event.type}'>`, value: event })
const typedObject = (value: Members): Typed => ({ type: `ObjectOf['${String(value['object'])}']`, value })

/** The value with its type. For a list, its members with their types. */
function typedAnswer(value: Members): Typed[] {
  if (value['object'] !== 'list') return [typedObject(value)]
  return [typedObject({ ...value, data: [] }), ...(value['data'] as Members[]).map(typedObject)]
}

const complaintsAbout = async (values: Typed[]): Promise<string[]> =>
  (await checkTypes(values)).flatMap((complaints, index) =>
    complaints.map((complaint) => `${values[index]?.type ?? ''}: ${complaint}`),
  )

let events: SimulatedEvent[]
let objects: Members[]

beforeAll(async () => {
  await using world = await startWorld()
  await runAllFeatures(world)
  events = await readEvents(world)
  objects = await readAnswers(world)
})

describe('compared with the types of the official client', () => {
  test('every event of the simulator has Stripe’s type, and the simulator has emitted all its types', async () => {
    expect([...new Set(events.map(({ type }) => type))].toSorted()).toEqual([...eventTypes].toSorted())
    expect(await complaintsAbout(events.map(typedEvent))).toEqual([])
  })

  test('every object in an answer has Stripe’s type', async () => {
    const typed = objects.flatMap(typedAnswer)
    expect(typed.length).toBeGreaterThan(100)
    expect(await complaintsAbout(typed)).toEqual([])
  })

  test('the recorded events and answers have Stripe’s types', async () => {
    const recorded = readdirSync(new URL('events/', folder)).map((file) =>
      typedEvent(readFixture(`events/${file}`) as SimulatedEvent),
    )
    const answers = Object.values(readFixture('api-objects.json') as Record<string, Members>)
    expect(recorded.length).toBeGreaterThan(20)
    expect(await complaintsAbout([...recorded, ...answers.flatMap(typedAnswer)])).toEqual([])
  })

  test('a single fault is detected in each type of object, in an answer and in an event', async () => {
    const samples = new Map(
      objects
        .flatMap(typedAnswer)
        .filter(({ type }) => type !== "ObjectOf['list']")
        .map(({ type, value }) => [type, value as Members]),
    )
    const seeded = [...samples].flatMap(([type, value]) =>
      seededFaults(value).map((fault) => ({ type, ...fault })),
    )
    const inEvents = events
      .filter(({ type }, index) => events.findIndex((each) => each.type === type) === index)
      .map((event) => {
        const object = { ...event.data.object, unheard_of: 1 }
        return { ...typedEvent({ ...event, data: { ...event.data, object } }), what: 'a member too many' }
      })
    const all = [...seeded, ...inEvents]
    // The same values without faults, so that a check that refuses everything does not pass.
    const sound = [...samples].map(([type, value]) => ({ type, value }))
    const complaints = await checkTypes([...all, ...sound])
    expect(complaints.slice(all.length).flat()).toEqual([])
    const unnoticed = all.filter((_fault, index) => complaints[index]?.length === 0)
    expect(unnoticed.map(({ type, what }) => `${type}: ${what}`)).toEqual([])
    expect(all.length).toBeGreaterThan(100)
  })
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
type List = Members & { data: (Members & { id: string })[] }

/** All emitted events, whether or not an endpoint wanted them. */
async function readEvents(world: World): Promise<SimulatedEvent[]> {
  const { data } = await get<{ data: { event: SimulatedEvent }[] }>(world, '/_sim/events')
  return data.map(({ event }) => event)
}

/** The API's answers for all objects. */
async function readAnswers(world: World): Promise<Members[]> {
  const ofVendor = (path: string): Promise<List> => get(world, `/v1/${path}`, vendor)
  const ofPlatform = (path: string): Promise<List> => get(world, `/v1/${path}`)
  const sessions = await ofVendor('checkout/sessions?limit=100')
  const fees = await ofPlatform('application_fees?limit=100')
  const lines = sessions.data.map(({ id }) => ofVendor(`checkout/sessions/${id}/line_items`))
  const feeRefunds = fees.data.map(({ id }) => ofPlatform(`application_fees/${id}/refunds`))
  const invoices = await ofVendor('invoices?limit=100&expand[0]=data.payments')
  const subscriptions = await ofVendor('subscriptions?limit=100&status=all')
  const invoiceLines = invoices.data.map(({ id }) => ofVendor(`invoices/${id}/lines?limit=100`))
  const items = subscriptions.data.map(({ id }) => ofVendor(`subscription_items?subscription=${id}`))
  const others = await Promise.all([
    ...lines,
    ...invoiceLines,
    ...items,
    ...feeRefunds,
    ofVendor('charges?limit=100'),
    ofVendor('disputes?limit=100'),
    ofVendor('invoice_payments?limit=100'),
    ofVendor('payment_intents?limit=100'),
    ofVendor('prices?limit=100'),
    ofVendor('refunds?limit=100'),
    ofPlatform('webhook_endpoints?limit=100'),
    ofPlatform(`accounts/${vendor}`),
  ])
  return [sessions, fees, invoices, subscriptions, ...others]
}

async function get<Body>(world: World, path: string, account?: string): Promise<Body> {
  const headers = {
    authorization: 'Bearer sk_test_simulated',
    ...(account !== undefined && { 'stripe-account': account }),
  }
  const response = await fetch(`${world.simulator.url}${path}`, { headers })
  if (!response.ok) throw new Error(`${path} was answered with ${response.status}: ${await response.text()}`)
  return (await response.json()) as Body
}
