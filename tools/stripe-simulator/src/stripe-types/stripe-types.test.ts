import { readFileSync, readdirSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { eventTypes } from '../objects/event.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import { startWorld } from '../test-support.ts'
import { checkTypes } from './check-types.ts'
import type { Typed } from './check-types.ts'
import { readAnswers, readEvents } from './read-everything.ts'
import type { Members } from './read-everything.ts'
import { seededFaults } from './seeded-faults.ts'
import { tellWholeStory } from './whole-story.ts'

const folder = new URL('../../fixtures/', import.meta.url)
const readFixture = (path: string): unknown => JSON.parse(readFileSync(new URL(path, folder), 'utf8'))

const typedEvent = (event: SimulatedEvent): Typed => ({ type: `EventOf<'${event.type}'>`, value: event })
const typedObject = (value: Members): Typed => ({ type: `ObjectOf['${String(value['object'])}']`, value })

/** A list is as good as what it lists. */
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
  await tellWholeStory(world)
  events = await readEvents(world)
  objects = await readAnswers(world)
})

describe('held against the types of the official client', () => {
  test('every event that the simulator makes is one of Stripe’s, and every type of them was made', async () => {
    expect([...new Set(events.map(({ type }) => type))].toSorted()).toEqual([...eventTypes].toSorted())
    expect(await complaintsAbout(events.map(typedEvent))).toEqual([])
  })

  test('every object that the API answers with is one of Stripe’s', async () => {
    const typed = objects.flatMap(typedAnswer)
    expect(typed.length).toBeGreaterThan(100)
    expect(await complaintsAbout(typed)).toEqual([])
  })

  test('the recorded events and answers are as well', async () => {
    const recorded = readdirSync(new URL('events/', folder)).map((file) =>
      typedEvent(readFixture(`events/${file}`) as SimulatedEvent),
    )
    const answers = Object.values(readFixture('api-objects.json') as Record<string, Members>)
    expect(recorded.length).toBeGreaterThan(20)
    expect(await complaintsAbout([...recorded, ...answers.flatMap(typedAnswer)])).toEqual([])
  })

  test('a single step from any of them is noticed, in an answer and in an event', async () => {
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
    // The same values without their faults, so that a check which complains about everything does not pass.
    const sound = [...samples].map(([type, value]) => ({ type, value }))
    const complaints = await checkTypes([...all, ...sound])
    expect(complaints.slice(all.length).flat()).toEqual([])
    const unnoticed = all.filter((_fault, index) => complaints[index]?.length === 0)
    expect(unnoticed.map(({ type, what }) => `${type}: ${what}`)).toEqual([])
    expect(all.length).toBeGreaterThan(100)
  })
})
