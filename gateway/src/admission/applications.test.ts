import { expect, test } from 'vitest'
import { appId, startGateway } from '../../test/gateway.ts'

test('the account of an application is looked up once for many requests of products', async () => {
  await using gateway = await startGateway()
  gateway.answers.products.getSigningKeys = async () => ({ jwksJson: '{"keys":[]}' })
  for (let request = 0; request < 5; request += 1) {
    expect((await gateway.api.get(`/v1/apps/${appId}/jwks.json`, { key: null })).status).toBe(200)
  }
  expect(gateway.calls.filter((name) => name === 'findApplicationOwner')).toHaveLength(1)
})
