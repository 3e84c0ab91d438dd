import { ServiceError } from '@licensing/grpc/errors'
import { expect, test } from 'vitest'
import { accountId, appId, applicationDefaults, gatewayOfFile, otherAppId } from '../../../test/gateway.ts'

const gateway = await gatewayOfFile()
const application = (id: string) => ({ ...applicationDefaults, id, accountId, name: 'Studio' })
const rootKeyOf = (id: string) => `lrk_${id.slice(-26).padEnd(43, '0')}`

test('a single application and a list of applications have root keys', async () => {
  gateway.answers.catalog.getApplication = async ({ applicationId }) => application(applicationId)
  gateway.answers.catalog.listApplications = async () => ({
    applications: [application(otherAppId), application(appId)],
    hasMore: false,
  })
  gateway.answers.rootKeys.getRootKeys = async ({ applicationIds }) => ({
    rootKeys: applicationIds.map(rootKeyOf),
  })
  const one = await gateway.api.get(`/v1/apps/${appId}`)
  expect(one.body).toMatchObject({ id: appId, root_key: rootKeyOf(appId) })
  const page = await gateway.api.get<{ data: unknown[] }>('/v1/apps')
  expect(page.body.data).toMatchObject([
    { id: otherAppId, root_key: rootKeyOf(otherAppId) },
    { id: appId, root_key: rootKeyOf(appId) },
  ])
  // One call for each answer, not for each application.
  expect(gateway.calls.filter((call) => call === 'getRootKeys')).toHaveLength(2)
})

test('the answer for a new application has the root key that catalog returned', async () => {
  gateway.answers.catalog.createApplication = async () => ({
    ...application(appId),
    rootKey: rootKeyOf(appId),
  })
  const before = gateway.calls.length
  const made = await gateway.api.post('/v1/apps', { body: { name: 'Studio' } })
  expect(made).toMatchObject({ status: 201, body: { root_key: rootKeyOf(appId) } })
  expect(gateway.calls.slice(before)).not.toContain('getRootKeys')
})

test('if licensing is unavailable, a request for an application gets 503, and never an answer without the root key', async () => {
  gateway.answers.catalog.getApplication = async ({ applicationId }) => application(applicationId)
  gateway.answers.rootKeys.getRootKeys = async () => {
    throw new ServiceError('unavailable', 'licensing is unavailable')
  }
  const answer = await gateway.api.get(`/v1/apps/${appId}`)
  expect(answer).toMatchObject({ status: 503, body: { code: 'unavailable' } })
  expect(answer.headers.get('retry-after')).toBe('1')
})
