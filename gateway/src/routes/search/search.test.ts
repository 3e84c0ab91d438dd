import { ServiceError } from '@licensing/grpc/errors'
import { expect, test } from 'vitest'
import { accountId, appId, gatewayOfFile } from '../../../test/gateway.ts'

const gateway = await gatewayOfFile()

const search = () => gateway.api.get(`/v1/apps/${appId}/search?q=%20acme%20`)

test('billing is searched first, and the matches have the order that licensing returns', async () => {
  const asked: object[] = []
  gateway.answers.billing.findLicencesOfSale = async (request) => {
    asked.push({ accountId: request.accountId, applicationId: request.applicationId, query: request.query })
    return { licences: [{ licenceId: 'lic_1', matched: 'charge_ref' }] }
  }
  gateway.answers.licensing.searchLicences = async (request) => {
    asked.push({ query: request.query, ofSales: request.ofSales.map(({ licenceId }) => licenceId) })
    return { found: [] }
  }
  expect((await search()).body).toEqual({ data: [] })
  expect(asked).toEqual([
    { accountId, applicationId: appId, query: 'acme' },
    { query: 'acme', ofSales: ['lic_1'] },
  ])
})

test.each(['billing', 'licensing'] as const)(
  'while %s is unavailable, a search gets 503 instead of incomplete matches',
  async (service) => {
    const unavailable = async () => {
      throw new ServiceError('unavailable', 'a dependency is temporarily unavailable')
    }
    gateway.answers.billing.findLicencesOfSale = async () => ({ licences: [] })
    gateway.answers.licensing.searchLicences = async () => ({ found: [] })
    if (service === 'billing') gateway.answers.billing.findLicencesOfSale = unavailable
    else gateway.answers.licensing.searchLicences = unavailable
    const answer = await search()
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
  },
)
