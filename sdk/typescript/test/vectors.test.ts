import { createPublicKey, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import { LicenceClient } from '../src/product/client.ts'
import type { LicenceState } from '../src/product/state.ts'
import { memoryStore, type LicenceStore } from '../src/product/store.ts'
import { ScriptedService } from './scripted-service.ts'
import { verifyWebhook } from '../src/webhooks.ts'
import { call, deliveries, inNotation, optionsOf, shared, vectorFiles } from './vector.ts'
import type { ClientFields, Step, Vector } from './vector.ts'

describe.each([...vectorFiles])('vectors of %s', (_file, vectors) => {
  it.each(vectors.map((vector) => [vector.name, vector] as const))('%s', (_name, vector) => play(vector))
})

describe('vectors of webhooks.json', () => {
  it.each(deliveries.map((delivery) => [delivery.name, delivery] as const))('%s', async (_name, delivery) => {
    const raw = delivery.body ?? Buffer.from(delivery.body_base64 ?? '', 'base64')
    const verified = verifyWebhook(raw, delivery.headers ?? delivery.signature, delivery.secrets, {
      clock: () => Date.parse(delivery.clock),
      toleranceSeconds: delivery.tolerance_seconds,
    })
    if (delivery.reason === null) await expect(verified).resolves.toEqual(JSON.parse(String(raw)))
    else await expect(verified).rejects.toMatchObject({ reason: delivery.reason })
  })
})

describe('without Ed25519 in Web Crypto', () => {
  it('every vector has the same result', async () => {
    const { subtle } = crypto
    const real = subtle.importKey.bind(subtle) as (...key: unknown[]) => Promise<CryptoKey>
    let asked = 0
    using importKey = vi.spyOn(subtle, 'importKey').mockImplementation((...key: unknown[]) => {
      if ((key[2] as { name?: string }).name !== 'Ed25519') return real(...key)
      asked++
      return Promise.reject(new DOMException('Unrecognized algorithm name', 'NotSupportedError'))
    })
    for (const vector of [...vectorFiles.values()].flat()) await play(vector)
    expect(importKey).toHaveBeenCalled()
    expect(asked).toBeGreaterThan(vectorFiles.size)
  })
})

async function play(vector: Vector): Promise<void> {
  const service = new ScriptedService()
  const store = storeOf(vector)
  const clock = { now: Date.parse(vector.clock) }
  const start = (fields: Partial<ClientFields>) => newClient(vector, fields, { service, store, clock })
  if (vector.refused) {
    expect(() => start({})).toThrow(TypeError)
    return
  }
  let client = start({})
  for (const [index, step] of vector.steps.entries()) {
    if (step.clock !== undefined) clock.now = Date.parse(step.clock)
    if (step.store !== undefined) await store.write(textOf(step.store))
    if (step.restart) client = start(step.restart)
    service.script(step.answers ?? [])
    const state = await call(client, step.call, step.argument)
    const seen = { ...observed(client, step, state), requests: service.requests }
    expect(seen, `${vector.name}, step ${index + 1}`).toMatchObject(expected(step))
    for (const [at, { without_headers: names = [] }] of (step.answers ?? []).entries()) {
      expect(names.filter((name) => service.requests[at]?.headers[name] !== undefined)).toEqual([])
    }
  }
}

describe('the documents that the vectors share', () => {
  it.each(Object.entries(shared.documents))(
    '%s has a signature of the key that it names, if it names no other algorithm',
    (_name, document) => {
      const [header = '', payload = '', signature = ''] = document.jws.split('.')
      const decode = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString())
      expect(decode(header)).toEqual({ alg: document.alg ?? 'EdDSA', kid: document.kid })
      expect(decode(payload)).toEqual(document.payload)
      const jwk = { kty: 'OKP', crv: 'Ed25519', x: shared.keys[document.signed_by]?.x ?? '' }
      const key = createPublicKey({ key: jwk, format: 'jwk' })
      const bytes = Buffer.from(signature, 'base64url')
      const isGood = verify(null, Buffer.from(`${header}.${payload}`), key, bytes)
      expect(isGood).toBe(document.alg === undefined)
    },
  )
})

describe('the table of failures in the README', () => {
  it('names every vector once, and none that does not exist', () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
    const [, table = ''] = /^## When things go wrong$([^]*?)^## /m.exec(readme) ?? []
    const named = [...table.matchAll(/^\|.*\|(.*)\|$/gm)].flatMap(([, last]) =>
      [...(last ?? '').matchAll(/`([a-z0-9-]+)`/g)].map(([, name]) => name),
    )
    const names = [...vectorFiles.values()].flat().map(({ name }) => name)
    expect(new Set(named)).toEqual(new Set(names))
    expect(named).toHaveLength(names.length)
  })
})

interface World {
  readonly service: ScriptedService
  readonly store: LicenceStore
  readonly clock: { readonly now: number }
}

function newClient(vector: Vector, fields: Partial<ClientFields>, world: World): LicenceClient {
  const given = { ...shared.client, ...vector.client, ...fields }
  const mustWait = JSON.stringify(vector).includes('"never"')
  return new LicenceClient({
    ...optionsOf(given),
    nonce: () => given.nonce,
    store: world.store,
    fetch: world.service.fetch,
    clock: () => world.clock.now,
    timeoutMs: mustWait ? 500 : 30_000,
    background: false,
  })
}

function storeOf(vector: Vector): LicenceStore {
  const { store, store_fails: fails } = vector
  const good = memoryStore(store === null ? null : textOf(store))
  const { read, write } = good
  const fail = () => Promise.reject(new Error('the disk is broken'))
  const hang = () => new Promise<never>(() => {})
  switch (fails) {
    case 'read':
      return { read: fail, write }
    case 'write':
      return { read, write: fail }
    case 'never':
      return { read: hang, write: hang }
    default:
      return good
  }
}

function textOf(content: unknown): string {
  return typeof content === 'string' ? content : JSON.stringify(content)
}

/** The state of the client and its other answers, in the notation of the vectors. */
function observed(client: LicenceClient, step: Step, state: LicenceState) {
  const ask = <T>(keys: object | undefined, answer: (key: string) => T) =>
    Object.fromEntries(Object.keys(keys ?? {}).map((key) => [key, answer(key)]))
  return {
    state: inNotation(state),
    features: ask(step.features, (key) => client.hasFeature(key)),
    limits: ask(step.limits, (key) => client.limit(key)),
    covers: ask(step.covers, (time) => client.covers(time)),
    ...('offline_request' in step && {
      offline_request: JSON.parse(client.createOfflineRequest()) as unknown,
    }),
  }
}

function expected({ state, features = {}, limits = {}, covers = {}, answers = [], ...step }: Step) {
  const requests = answers.map(({ request, with_headers: headers = {}, with_json: json }) =>
    json ? { request, headers, json } : { request, headers },
  )
  const offline = 'offline_request' in step && { offline_request: step.offline_request }
  return { state, features, limits, covers, ...offline, requests }
}
