import {
  array,
  assert,
  asyncProperty,
  constant,
  constantFrom,
  integer,
  json,
  oneof,
  record,
  string,
  type Arbitrary,
} from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LicenceClient } from '../src/product/client.ts'
import type { LicenceState } from '../src/product/state.ts'
import { memoryStore } from '../src/product/store.ts'
import { optionsOf, shared, vectorFiles } from './vector.ts'

/** All answers of authentic and forged services in the vectors, and many that no service would give. */
const replies = oneof(
  constantFrom(...[...vectorFiles.values()].flat().flatMap(repliesIn)),
  record({ status: integer({ min: 200, max: 599 }), text: string() }),
  record({ status: constantFrom(200, 201, 403, 404), text: json() }),
  constant({ status: 0, text: '' }),
)

const calls = constantFrom(
  ...([
    'ready',
    'activate',
    'refresh',
    'check',
    'deactivate',
    'callHome',
    'migrate',
    'file',
    'release',
    'startTrial',
  ] as const),
)

const files = oneof(
  string(),
  constantFrom(
    ...[...vectorFiles.values()]
      .flat()
      .flatMap(({ steps }) => steps.flatMap(({ argument }) => argument ?? [])),
  ),
)

const steps = array(record({ call: calls, file: files, clock: integer({ min: -1e12, max: 4e12 }) }), {
  maxLength: 8,
})

const stores = oneof(
  constant(null),
  string(),
  json(),
  constantFrom(...[...vectorFiles.values()].flat().map(({ store }) => JSON.stringify(store))),
)

type Call = typeof calls extends Arbitrary<infer T> ? T : never

describe('a client, whatever the service, the store and the clock do', () => {
  it('resolves every call to a state, never throws, and grants only what a token signed by the application says', async () => {
    const genuine = new Set(['25', '3', '5', '100'])
    await assert(
      asyncProperty(stores, array(replies), steps, async (text, script, steps) => {
        const { client, clock } = givenClient(text, script)
        for (const { call, file, clock: now } of steps) {
          clock.now = now
          const state = await run(client, call, file)
          expect(isConsistent(state)).toBe(true)
          const limit = String(client.limit('max_projects'))
          expect(state.usable ? genuine.has(limit) : limit === '0').toBe(true)
          // Only the token with overrides has it, and no other has this limit.
          expect(client.hasFeature('beta_tools')).toBe(state.usable && limit === '100')
        }
      }),
      { numRuns: 500 },
    )
  })

  it('reads a text of a megabyte as a licence file at once, whatever somebody pasted', async () => {
    const size = 1_000_000
    const begin = '-BEGIN LICENCE-'
    const repeated = (text: string) => text.repeat(size / text.length)
    const ends = ['', '-END LICENCE-', '=']
    const middles = ['-', ' ', '> ', '\u2014', 'a', 'a.', '-\n', begin, '-END LICENCE', '-BEGIN ']
    const { client } = givenClient(null, [])
    const started = performance.now()
    for (const text of middles.flatMap((middle) => ends.map((end) => begin + repeated(middle) + end))) {
      const { reason } = await client.activateOffline(text)
      expect(reason).toBe('file_malformed')
    }
    expect(performance.now() - started).toBeLessThan(15_000)
  })
})

function run(client: LicenceClient, call: Call, file: string): Promise<LicenceState> {
  switch (call) {
    case 'migrate':
      return client.migrateAsync('OLD-1')
    case 'file':
      return client.activateOffline(file)
    case 'startTrial':
      return client.startTrial('pro')
    default:
      return client[call]()
  }
}

/** `usable`, `reason` and the token's fields agree with the status. */
function isConsistent({ status, usable, reason, expiresAt }: LicenceState): boolean {
  switch (status) {
    case 'licensed':
      return usable && reason === null && expiresAt !== null
    case 'grace':
      return usable && reason !== null && expiresAt !== null
    case 'lapsed':
      return !usable && reason !== null && expiresAt !== null
    case 'refused':
      return !usable && reason !== null
    case 'unlicensed':
      return !usable && reason !== null && expiresAt === null
    case 'starting':
      return false
  }
}

function givenClient(text: string | null, script: readonly { status: number; text: string }[]) {
  const clock = { now: Date.parse('2026-11-21T10:00:00Z') }
  let asked = 0
  const client = new LicenceClient({
    ...optionsOf(shared.client),
    background: false,
    store: memoryStore(text),
    clock: () => clock.now,
    fetch: async () => {
      const { status, text } = script[asked++] ?? { status: 0, text: '' }
      if (status === 0) throw new TypeError('fetch failed')
      const isEmpty = status === 204 || status === 205 || status === 304
      return new Response(isEmpty ? null : text, { status })
    },
  })
  return { client, clock }
}

function repliesIn({ steps }: { steps: readonly { answers?: readonly { response: object }[] }[] }) {
  return steps
    .flatMap(({ answers = [] }) => answers.map(({ response }) => response as Record<string, unknown>))
    .filter((response) => typeof response['status'] === 'number')
    .map(({ status, json, text }) => ({
      status: Number(status),
      text: json === undefined ? (typeof text === 'string' ? text : '') : JSON.stringify(json),
    }))
}
