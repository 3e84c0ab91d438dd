import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { operationsOf, readDocument } from './document.ts'
import { expectStatus, givenReceiver, givenStack, givenVendor } from './vendor.ts'

const stack = await givenStack()
const receiver = await givenReceiver()

/** The operations, each after the operations that create the objects it needs. */
const order = [
  'createApplication',
  'updateApplication',
  'createApiKey',
  'createMember',
  'updateMember',
  'updateAccount',
  'createEntitlementDefinition',
  'updateEntitlementDefinition',
  'createPlan',
  'updatePlan',
  'createWebhookEndpoint',
  'issueLicence',
  'setOverride',
  'startTrial',
  'activate',
  'refreshActivation',
  'recordCallHome',
  'activateOffline',
  'createCustomerSession',
  'signInWithLicenceKey',
  'createCustomerLicenceFile',
  'updateLicence',
  'importLicences',
  'migrateLegacyKey',
  'connectProcessor',
  'setPrice',
  'setSpendCap',
  'createCheckoutSession',
  'recordSaleEvent',
  'reportSaleRenewal',
  'reportSaleFailure',
  'reportSaleRefund',
  'reportSaleCancellation',
  'updateWebhookEndpoint',
  'rotateWebhookSecret',
  'recoverWebhookEndpoint',
  'replayWebhookDelivery',
]

test('the document’s example of each request is accepted unchanged, except for the ids in it', async () => {
  const operations = operationsOf(await readDocument(stack.gatewayUrl))
  const withExample = operations.filter(({ requestBody }) => requestBody?.content['application/json'].example)
  expect(withExample.map(({ operationId }) => operationId).toSorted()).toEqual(order.toSorted())
  const { appId } = await givenVendor(stack)
  // The real value for each id, key or address of the examples. Created objects are added.
  const actual = new Map([
    ['app_', appId],
    ['{app_id}', appId],
    ['https://backend.example.com/', receiver.url()],
  ])
  // Customers of a new application can neither sign in with a key nor make licence files.
  const customer_page = { key_sign_in: true, offline_days: 30 }
  expectStatus(await stack.api.patch(`/v1/apps/${appId}`, { body: { customer_page } }), 200)
  let token = ''
  let session = ''
  const learn: Readonly<Record<string, (answer: Record<string, string>) => Promise<void> | void>> = {
    createEntitlementDefinition: ({ id, key }) => void actual.set('{ent_id}', id!).set('{key}', key!),
    createPlan: ({ id }) => void actual.set('pln_', id!).set('{plan_id}', id!),
    recordSaleEvent: ({ sale_id }) => void actual.set('{sale_id}', sale_id!),
    createMember: ({ id }) => void actual.set('{member_id}', id!),
    createWebhookEndpoint: ({ id }) => void actual.set('whe_', id!).set('{endpoint_id}', id!),
    issueLicence: ({ id, key }) => void actual.set('{licence_id}', id!).set('7K3QX', key!),
    activate: (answer) => {
      actual.set('{activation_id}', answer['activation_id']!)
      token = answer['token']!
    },
    createCustomerSession: ({ url }) => void (session = url!.split('#')[1]!),
    recoverWebhookEndpoint: async () => {
      const path = `/v1/apps/${appId}/webhook-endpoints/${actual.get('{endpoint_id}')}/test`
      const { event_id: event } = (await stack.api.post<{ event_id: string }>(path)).body
      const delivery = await eventually(async () => {
        const page = await stack.api.get<{ data: { id: string }[] }>(
          `/v1/apps/${appId}/webhook-deliveries?event=${event}`,
        )
        expect(page.body.data).toHaveLength(1)
        return page.body.data[0]!
      })
      actual.set('{delivery_id}', delivery.id)
    },
  }
  const substitute = (value: unknown): unknown =>
    typeof value === 'string'
      ? ([...actual].find(([example]) => value.startsWith(example))?.[1] ?? value)
      : Array.isArray(value)
        ? value.map(substitute)
        : typeof value === 'object' && value !== null
          ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, substitute(inner)]))
          : value
  for (const operationId of order) {
    const operation = withExample.find((each) => each.operationId === operationId)!
    const path = operation.path.replaceAll(/\{\w+\}/g, (name) => actual.get(name)!)
    const call = stack.api[operation.method.toLowerCase() as 'post' | 'put' | 'patch']
    const answer = await call<Record<string, string>>(path, {
      body: substitute(operation.requestBody!.content['application/json'].example),
      headers: { 'idempotency-key': operationId },
      ...(operation.security.some((way) => 'activationToken' in way) && { key: token }),
      ...(operation.security.some((way) => 'customerSession' in way) && { key: session }),
      ...(operation.security.length === 0 && { key: null }),
    })
    const succeeds = Object.keys(operation.responses).filter((status) => status.startsWith('2'))
    expect(succeeds, `${operationId}: ${JSON.stringify(answer.body)}`).toContain(String(answer.status))
    await learn[operationId]?.(answer.body)
  }
})
