import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { CatalogService } from '@licensing/proto/catalog'
import { beforeAll, describe, expect, test } from 'vitest'
import { callContext } from './call-context.ts'
import type { ServedKey } from './call-context.ts'
import { connectTo } from './client.ts'
import { withIdempotencyKey } from './idempotency-key.ts'
import { implement, serve } from './server.ts'
import type { Handlers } from './server.ts'
import { shareProcess } from './testing/round-trips.ts'

const sent = { path: '/v1/apps', key: 'schlüssel \u00ff', bodyHash: Buffer.from([0, 255, 10]) }
const served = { ...sent, accountId: 'acct_1', bodyHash: Buffer.from(sent.bodyHash) }

/** A catalog that records the keys of its calls, and reports every second call as answered before. */
async function givenCatalog(inner?: () => Promise<unknown>) {
  const keys: [rpc: string, key: Omit<ServedKey, 'replayed'> | undefined][] = []
  const note = (rpc: string) => {
    const key = callContext()?.idempotencyKey
    keys.push([rpc, key && withBuffer(key)])
    if (key) key.replayed = keys.length % 2 === 0
  }
  const handlers: Partial<Handlers<typeof CatalogService>> = {
    createApplication: async () => {
      note('createApplication')
      await inner?.()
      return { id: 'app_1' }
    },
    getApplication: async () => {
      note('getApplication')
      return { id: 'app_1' }
    },
    authenticateKey: async () => {
      note('authenticateKey')
      return {}
    },
  }
  const unexpected = () => Promise.reject(new Error('not expected'))
  const all = Object.fromEntries(CatalogService.methods.map(({ localName }) => [localName, unexpected]))
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: [implement(CatalogService, { ...all, ...handlers } as Handlers<typeof CatalogService>)],
    log: createLogger('test', 'silent'),
    health: new Health(),
  })
  const connection = connectTo(CatalogService, `127.0.0.1:${server.port}`)
  return {
    keys,
    calls: connection.calls,
    [Symbol.asyncDispose]: async () => {
      connection.close()
      await server.stop()
    },
  }
}

function withBuffer({ accountId, path, key, bodyHash }: ServedKey) {
  return { accountId, path, key, bodyHash: Buffer.from(bodyHash) }
}

describe.each(['through the network', 'within a process'])('%s', (where) => {
  beforeAll(() => where === 'within a process' && shareProcess())

  test('only calls with side effects carry the key, together with the account in their request', async () => {
    await using catalog = await givenCatalog()
    const { calls, keys } = catalog
    await calls.createApplication({ accountId: 'acct_1', name: 'x' })
    await withIdempotencyKey(sent, async () => {
      await calls.getApplication({ accountId: 'acct_1', applicationId: 'app_1' })
      await calls.authenticateKey({ keyHash: Buffer.alloc(32) })
      await calls.createApplication({ accountId: 'acct_1', name: 'x' })
    })
    expect(keys).toEqual([
      ['createApplication', undefined],
      ['getApplication', undefined],
      ['authenticateKey', undefined],
      ['createApplication', served],
    ])
  })

  test('the caller learns whether the answer is that of an earlier call', async () => {
    await using catalog = await givenCatalog()
    const create = () => catalog.calls.createApplication({ accountId: 'acct_1', name: 'x' })
    const first = await withIdempotencyKey(sent, create)
    const second = await withIdempotencyKey(sent, create)
    expect([first.replayed, second.replayed]).toEqual([false, true])
    expect(second.value).toMatchObject({ id: 'app_1' })
  })

  test('a called service makes its own calls without the key', async () => {
    await using inner = await givenCatalog()
    await using outer = await givenCatalog(() =>
      inner.calls.createApplication({ accountId: 'acct_1', name: 'x' }),
    )
    await withIdempotencyKey(sent, () => outer.calls.createApplication({ accountId: 'acct_1', name: 'x' }))
    expect(outer.keys).toEqual([['createApplication', served]])
    expect(inner.keys).toEqual([['createApplication', undefined]])
  })
})
