import { Metadata, status as Status } from '@grpc/grpc-js'
import type { DescService } from '@bufbuild/protobuf'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { parsePeerKeys } from '@licensing/process/peer-keys'
import { BillingService } from '@licensing/proto/billing'
import { BillingOperationsService } from '@licensing/proto/billing-operations'
import { grants, mayCall } from '@licensing/proto/callers'
import type { Callee, Caller } from '@licensing/proto/callers'
import { CatalogOperationsService } from '@licensing/proto/catalog-operations'
import { CatalogService } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { DeadLettersService } from '@licensing/proto/dead-letters'
import { NotifierService } from '@licensing/proto/notifier'
import { CustomerService } from '@licensing/proto/customers'
import { ProductService } from '@licensing/proto/products'
import { PurchaseService } from '@licensing/proto/purchases'
import { MoveService } from '@licensing/proto/moves'
import { QuotaService } from '@licensing/proto/quota-service'
import { RootKeyService } from '@licensing/proto/root-keys'
import { SecretsService } from '@licensing/proto/secrets'
// By its path, because the package of the tests depends on this one.
import { newCallerKeys } from '../../../tests/support/src/caller-keys.ts'
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { checkCallers, signCalls } from './callers.ts'
import type { CallerMode, SignCall } from './callers.ts'
import { connectTo } from './client.ts'
import { implement, serve } from './server.ts'
import type { Handlers } from './server.ts'

const log = createLogger('test', 'silent')
const keys = newCallerKeys()
const callers = Object.keys(keys) as Caller[]

const served: Record<Callee, DescService[]> = {
  catalog: [CatalogService, CatalogOperationsService, DeadLettersService, MoveService, QuotaService],
  licensing: [
    LicensingService,
    ProductService,
    CustomerService,
    PurchaseService,
    RootKeyService,
    DeadLettersService,
    MoveService,
    QuotaService,
    SecretsService,
  ],
  billing: [BillingService, BillingOperationsService, MoveService, QuotaService],
  notifier: [NotifierService, DeadLettersService, MoveService, QuotaService, SecretsService],
}
const callees = Object.keys(served) as Callee[]

/** RPCs whose handler was reached. */
let reached: string[] = []

async function startCallee(
  self: Callee,
  mode: CallerMode = 'require',
  keysOfCallers = keys[self].CALLER_KEYS,
) {
  const config = { CALLER_KEYS: parsePeerKeys(keysOfCallers), CALLER_CHECK: mode }
  const services = served[self].map((service) => {
    const handlers = service.methods.map(({ localName, parent }) => [
      localName,
      async () => {
        reached.push(`${parent.typeName}/${localName}`)
        return {}
      },
    ])
    return implement(service, Object.fromEntries(handlers) as Handlers<DescService>)
  })
  const address = { host: '127.0.0.1', port: 0 }
  const checkCaller = checkCallers(self, config, log)
  return serve({ address, services, log, health: new Health(), checkCaller })
}

const servers = new Map<Callee, Awaited<ReturnType<typeof startCallee>>>()
beforeAll(async () => {
  for (const callee of callees) servers.set(callee, await startCallee(callee))
})
afterAll(async () => {
  for (const server of servers.values()) await server.stop()
})
beforeEach(() => void (reached = []))

const addressOf = (callee: Callee) => `127.0.0.1:${servers.get(callee)!.port}`
const signAs = (caller: Caller, callee: Callee, pairs = keys[caller].CALL_KEYS) =>
  signCalls(caller, callee, { CALL_KEYS: parsePeerKeys(pairs), CALLER_CHECK: 'require' })

const channels = new Map<string, { calls: unknown; close(): void }>()
afterAll(() => channels.forEach((channel) => channel.close()))
/** Signs the next call. */
let carried: SignCall | undefined

/** The result of a call: `let in`, or the status with which it is refused. */
async function outcome(service: DescService, method: string, address: string, sign?: SignCall) {
  const name = `${service.typeName} ${address}`
  const channel =
    channels.get(name) ??
    connectTo(service, address, { sign: (metadata) => carried?.(metadata), timeoutMs: 20_000 })
  channels.set(name, channel)
  const calls = channel.calls as Record<string, (request: object) => Promise<unknown>>
  carried = sign
  try {
    await calls[method]!({})
    return 'let in'
  } catch (error) {
    const { code = Status.UNKNOWN } = (error as { cause?: { code?: Status } }).cause ?? {}
    // A call that passes the check fails with INTERNAL, because its request names no account.
    if (code === Status.INTERNAL) return 'let in'
    if (code === Status.UNAUTHENTICATED || code === Status.PERMISSION_DENIED) return Status[code]
    throw error
  }
}

/** Sends a given token. */
const sending =
  (token: string): SignCall =>
  (metadata) =>
    metadata.set('x-caller', token)

function tokenOf(sign: SignCall): string {
  const metadata = new Metadata()
  sign(metadata)
  return String(metadata.get('x-caller')[0])
}

describe.each(callees)('of %s', (callee) => {
  const rpcs = served[callee].flatMap((service) => service.methods.map((method) => ({ service, method })))

  test('every RPC can be called only by the components that need it, and never without a name', async () => {
    for (const { service, method } of rpcs) {
      const name = method.localName
      expect(await outcome(service, name, addressOf(callee)), name).toBe('UNAUTHENTICATED')
      for (const caller of callers) {
        const allowed = mayCall(caller, callee, service.typeName, name)
        expect(
          await outcome(service, name, addressOf(callee), signAs(caller, callee)),
          `${caller} calls ${name}`,
        ).toBe(allowed ? 'let in' : 'PERMISSION_DENIED')
      }
    }
  })

  test('every RPC is called by a component, and every grant is of an existing RPC', () => {
    const called = new Set(
      callers.flatMap((caller) =>
        grants[caller].flatMap(({ on, service, methods }) =>
          on === callee ? methods.map((method) => `${service.typeName}/${method}`) : [],
        ),
      ),
    )
    expect([...called].toSorted()).toEqual(
      rpcs.map(({ service, method }) => `${service.typeName}/${method.localName}`).toSorted(),
    )
  })
})

test('a notifier under control of an attacker cannot create an API key, whatever it sends', async () => {
  const at = addressOf('catalog')
  const own = signAs('notifier', 'catalog')
  const [, until, mac] = tokenOf(own).split('.')
  const attempts = {
    'its own name': own,
    'the gateway’s name': sending(`gateway.${until}.${mac}`),
    'the gateway’s name under its own key': signAs('gateway', 'catalog', keys.notifier.CALL_KEYS),
    'what the gateway sent it': sending(tokenOf(signAs('gateway', 'notifier'))),
    'no name': undefined,
    nonsense: sending('gateway'),
  }
  for (const [what, sign] of Object.entries(attempts)) {
    expect(await outcome(CatalogService, 'createApiKey', at, sign), what).not.toBe('let in')
  }
  expect(reached).toEqual([])
})

test('a token is valid for about a minute, also if the clock of its sender is slightly wrong', async () => {
  const at = addressOf('catalog')
  const sentAfter = async (seconds: number) => {
    const now = Date.now()
    const clock = vi.spyOn(Date, 'now').mockReturnValue(now - seconds * 1000)
    const token = tokenOf(signAs('notifier', 'catalog'))
    clock.mockRestore()
    return outcome(CatalogService, 'getAccount', at, sending(token))
  }
  expect(await sentAfter(80)).toBe('let in')
  expect(await sentAfter(-20)).toBe('let in')
  expect(await sentAfter(100)).toBe('UNAUTHENTICATED')
  expect(await sentAfter(-40)).toBe('UNAUTHENTICATED')
})

test('the health check tells a caller that its calls are refused, and answers a caller without a name', async () => {
  const check = async (sign?: SignCall) => {
    const channel = connectTo(CatalogService, addressOf('catalog'), sign ? { sign } : {})
    try {
      return await channel.serving(5_000).then(
        () => 'serving',
        (error: Error) => error.message,
      )
    } finally {
      channel.close()
    }
  }
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 3_600_000)
  const token = tokenOf(signAs('gateway', 'catalog'))
  clock.mockRestore()
  expect(await check()).toBe('serving')
  expect(await check(signAs('gateway', 'catalog'))).toBe('serving')
  expect(await check(sending(token))).toContain('the caller is not known')
})

test('a caller renews its token in time, also after its clock was turned back', async () => {
  const sign = signAs('notifier', 'catalog')
  const start = Date.now()
  const clock = vi.spyOn(Date, 'now')
  const tokens = [0, 20, 31, 3_600, -3_600].map((seconds) => {
    clock.mockReturnValue(start + seconds * 1000)
    return tokenOf(sign)
  })
  clock.mockRestore()
  expect(tokens[1]).toBe(tokens[0])
  expect(new Set(tokens).size).toBe(4)
})

test('while a key is being changed, both keys are valid; afterwards the former key is not', async () => {
  const [former, next] = ['a', 'b'].map((letter) => letter.repeat(43))
  const pair = (key: string) => `notifier:${key}`
  const call = async (callerKeys: string, key: string) => {
    const server = await startCallee('catalog', 'require', callerKeys)
    const sign = signAs('notifier', 'catalog', `catalog:${key}`)
    const ended = await outcome(CatalogService, 'getAccount', `127.0.0.1:${server.port}`, sign)
    await server.stop()
    return ended
  }
  const both = `${pair(next!)},${pair(former!)}`
  expect([await call(both, former!), await call(both, next!)]).toEqual(['let in', 'let in'])
  expect(await call(pair(next!), former!)).toBe('UNAUTHENTICATED')
})

test('during an upgrade, calls without a name pass, and calls with a name are checked', async () => {
  const server = await startCallee('catalog', 'accept')
  const at = `127.0.0.1:${server.port}`
  expect(await outcome(CatalogService, 'createApiKey', at)).toBe('let in')
  const notifier = signAs('notifier', 'catalog')
  expect(await outcome(CatalogService, 'createApiKey', at, notifier)).toBe('PERMISSION_DENIED')
  expect(await outcome(CatalogService, 'createApiKey', at, sending('gateway.1.x'))).toBe('UNAUTHENTICATED')
  await server.stop()
})

test('a process without keys does not start, unless CALLER_CHECK is off', () => {
  const none = { CALL_KEYS: undefined, CALLER_KEYS: undefined }
  for (const mode of ['accept', 'require'] as const) {
    expect(() => checkCallers('catalog', { ...none, CALLER_CHECK: mode }, log)).toThrow('CALLER_KEYS')
    expect(() => signCalls('notifier', 'catalog', { ...none, CALLER_CHECK: mode })).toThrow('CALL_KEYS')
  }
  expect(checkCallers('catalog', { ...none, CALLER_CHECK: 'off' }, log)).toBeUndefined()
  for (const wrong of ['catalog', 'catalog:short', 'catalog=x', '', `catalog:${'a'.repeat(43)},`]) {
    expect(() => parsePeerKeys(wrong)).toThrow('name:key')
  }
})

test('compose has a key for each pair of components that call each other, and no other keys', async () => {
  const script = await readFile(new URL('../../../deploy/compose/make-secrets', import.meta.url), 'utf8')
  const [, list = ''] = /for pair in ([^;]+);/.exec(script) ?? []
  const needed = callers.flatMap((caller) => grants[caller].map(({ on }) => `${caller}:${on}`))
  expect(list.split(/[\s\\]+/).toSorted()).toEqual([...new Set(needed)].toSorted())
})
