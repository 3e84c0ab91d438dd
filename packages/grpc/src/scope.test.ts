import { create, getOption } from '@bufbuild/protobuf'
import type { DescMethod, DescService } from '@bufbuild/protobuf'
import { MethodDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { CatalogService } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { no_account } from '@licensing/proto/scope'
import { readdirSync } from 'node:fs'
import { expect, test } from 'vitest'
import { connectTo } from './client.ts'
import { missingScope } from './scope.ts'
import { implement, serve } from './server.ts'
import type { Handlers } from './server.ts'

const generated = new URL('../../../proto/gen/', import.meta.url)

/** The RPCs of every service of the contracts. */
async function allMethods(): Promise<DescMethod[]> {
  const files = readdirSync(generated, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('_pb.ts'),
  )
  const methods: DescMethod[] = []
  for (const file of files) {
    const declared = Object.values((await import(new URL(file, generated).href)) as Record<string, unknown>)
    for (const value of declared) {
      if ((value as { kind?: string }).kind === 'service') methods.push(...(value as DescService).methods)
    }
  }
  return methods
}

const nameOf = (method: DescMethod) => `${method.parent.typeName}/${method.name}`

test('the request of every RPC names an account, except for these RPCs, which declare why not', async () => {
  const methods = await allMethods()
  expect(methods.map(nameOf)).toContain('notifier.v1.NotifierService/ListEvents')
  for (const method of methods) expect(() => missingScope(method), nameOf(method)).not.toThrow()
  const without = methods.filter((method) => getOption(method, no_account) !== '')
  expect(without.map(nameOf).sort()).toEqual([
    'billing.v1.BillingOperationsService/CreateProcessorWebhook',
    'billing.v1.BillingOperationsService/DescribeProcessorWebhook',
    'billing.v1.BillingOperationsService/DiscardProcessorEvent',
    'billing.v1.BillingOperationsService/ListProcessorEvents',
    'billing.v1.BillingOperationsService/ResendEffects',
    'billing.v1.BillingOperationsService/RetryProcessorEvent',
    'billing.v1.BillingService/ConfirmProcessorAuthorization',
    'billing.v1.BillingService/ReceiveProcessorAuthorization',
    'billing.v1.BillingService/ReceiveProcessorEvent',
    'catalog.v1.CatalogOperationsService/CreateAccount',
    'catalog.v1.CatalogOperationsService/ListAccounts',
    'catalog.v1.CatalogOperationsService/RevokeAnyApiKey',
    'catalog.v1.CatalogService/AuthenticateKey',
    'catalog.v1.CatalogService/AuthenticateKeys',
    'catalog.v1.CatalogService/AuthenticateMember',
    'catalog.v1.CatalogService/ConfirmAlertEmail',
    'catalog.v1.CatalogService/FindAlertEmailConfirmation',
    'catalog.v1.CatalogService/FindApplicationOwner',
    'catalog.v1.CatalogService/FindCustomerPage',
    'catalog.v1.CatalogService/FindMembersOfPerson',
    'catalog.v1.CatalogService/GetCopyEpoch',
    'catalog.v1.CatalogService/ListPlanCopies',
    'catalog.v1.CatalogService/SignIn',
    'catalog.v1.CatalogService/UseSignInState',
    'events.v1.DeadLettersService/DiscardDeadLetter',
    'events.v1.DeadLettersService/ListDeadLetters',
    'events.v1.DeadLettersService/RetryDeadLetters',
    'licensing.v1.CustomerService/FindCustomerSession',
    'licensing.v1.CustomerService/SignInWithKey',
    'licensing.v1.LicensingService/CountActiveLicences',
    'licensing.v1.ProductService/Activate',
    'licensing.v1.ProductService/CheckActivation',
    'licensing.v1.ProductService/Deactivate',
    'licensing.v1.ProductService/GetRevocations',
    'licensing.v1.ProductService/GetSigningKeys',
    'licensing.v1.ProductService/MigrateLegacyKey',
    'licensing.v1.ProductService/RecordCallHome',
    'licensing.v1.ProductService/RefreshActivation',
    'licensing.v1.ProductService/Release',
    'licensing.v1.ProductService/StartTrial',
    'licensing.v1.RootKeyService/GetRootKeys',
    'secrets.v1.SecretsService/ReEncrypt',
  ])
})

test('an RPC without an account is not served if it does not declare why', () => {
  const silent = { ...CatalogService.method.listPlanCopies, proto: create(MethodDescriptorProtoSchema) }
  expect(() => missingScope(silent)).toThrow('has no account_id')
  const { proto } = CatalogService.method.listPlanCopies
  const contradicting = { ...CatalogService.method.getPlan, proto }
  expect(() => missingScope(contradicting)).toThrow('one of them is wrong')
})

/** A service whose handlers return empty answers. Its calls and logged errors are recorded. */
async function givenService<S extends DescService>(service: S) {
  const handled: string[] = []
  const logged: { method: string; err: Error }[] = []
  const error = (line: { method: string; err: Error }) => void logged.push(line)
  const log = Object.assign(createLogger('test', 'silent'), { error })
  const handlers = Object.fromEntries(
    service.methods.map(({ name, localName }) => [
      localName,
      async () => {
        handled.push(name)
        return {}
      },
    ]),
  )
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: [implement(service, handlers as unknown as Handlers<S>)],
    log,
    health: new Health(),
  })
  const { calls, close } = connectTo(service, `127.0.0.1:${server.port}`)
  return {
    calls,
    handled,
    logged,
    [Symbol.asyncDispose]: async () => {
      close()
      await server.stop()
    },
  }
}

test('a request with an empty account or application id reaches no handler, is logged and gets internal', async () => {
  await using given = await givenService(CatalogService)
  const { calls, handled, logged } = given
  const page = { limit: 0, beforeId: '' }
  const internal = { code: 'internal', message: 'something failed on our side' }
  await expect(calls.listPlans({ accountId: '', applicationId: 'app_1', ...page })).rejects.toMatchObject(
    internal,
  )
  await expect(calls.listPlans({ accountId: 'acct_1', applicationId: '', ...page })).rejects.toMatchObject(
    internal,
  )
  // @ts-expect-error -- a call without the scope does not compile. If it is made anyway, it is refused.
  await expect(calls.listPlans(page)).rejects.toMatchObject(internal)
  expect(handled).toEqual([])
  expect(logged.map(({ method, err }) => [method, err.message])).toEqual([
    ['catalog.v1.CatalogService/ListPlans', 'the request names no account_id'],
    ['catalog.v1.CatalogService/ListPlans', 'the request names no application_id'],
    ['catalog.v1.CatalogService/ListPlans', 'the request names no account_id'],
  ])
  await calls.listPlans({ accountId: 'acct_1', applicationId: 'app_1', ...page })
  expect(handled).toEqual(['ListPlans'])
})

test('an optional id may be absent but not empty, because an empty id could select all rows', async () => {
  await using given = await givenService(CatalogService)
  const page = { accountId: 'acct_1', limit: 0, beforeId: '' }
  await expect(given.calls.listApplications({ ...page, onlyApplicationId: '' })).rejects.toMatchObject({
    code: 'internal',
  })
  await given.calls.listApplications({ ...page, onlyApplicationId: undefined })
  expect(given.handled).toEqual(['ListApplications'])
})

test('ids in nested messages of a request are required too, in each of them', async () => {
  await using given = await givenService(LicensingService)
  const { calls, handled } = given
  const scope = { accountId: 'acct_1', applicationId: 'app_1' }
  const plan = {
    id: 'pln_1',
    code: 'plan',
    status: 'active',
    version: 1n,
    archivedBy: '',
    archiveVersion: 0n,
    epoch: 0n,
    expiringNoticeDays: 14,
    ...scope,
  }
  await expect(calls.syncPlans({ plans: [plan, { ...plan, accountId: '' }] })).rejects.toMatchObject({
    code: 'internal',
  })
  await expect(calls.archivePlan({ plan: { ...plan, applicationId: '' } })).rejects.toMatchObject({
    code: 'internal',
  })
  await expect(calls.archivePlan({})).rejects.toMatchObject({ code: 'internal' })
  expect(handled).toEqual([])
  await calls.syncPlans({ plans: [plan] })
  await calls.syncPlans({ plans: [] })
  expect(handled).toEqual(['SyncPlans', 'SyncPlans'])
})

test('the type of a request requires all fields that are not optional in the contract', async () => {
  await using given = await givenService(CatalogService)
  const { calls } = given
  const within = { accountId: 'acct_1', applicationId: 'app_1' }
  // Optional fields, messages and repeated fields may be left out.
  await calls.updatePlan({ ...within, planId: 'pln_1' })
  await calls.createPlan({ ...within, entitlements: [{ key: 'a', value: '1' }] })
  // @ts-expect-error -- the plan is missing
  await calls.getPlan(within)
  // @ts-expect-error -- the actor is missing
  await calls.archivePlan({ ...within, planId: 'pln_1' })
  // @ts-expect-error -- a field of a nested message is missing
  await calls.createPlan({ ...within, entitlements: [{ key: 'a' }] })
  // @ts-expect-error -- a field that is undefined is absent
  await calls.getPlan({ ...within, planId: undefined })
})
