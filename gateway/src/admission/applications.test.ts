import { connectTo } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { CatalogService } from '@licensing/proto/catalog'
import { expect, test } from 'vitest'
import { accountId, appId, startGateway, otherAccountAppId } from '../testing/gateway.ts'
import { Applications } from './applications.ts'

test('whose an application is, is asked once for many requests of products', async () => {
  await using gateway = await startGateway()
  gateway.answers.products.getSigningKeys = async () => ({ jwksJson: '{"keys":[]}' })
  for (let request = 0; request < 5; request += 1) {
    expect((await gateway.api.get(`/v1/apps/${appId}/jwks.json`, { key: null })).status).toBe(200)
  }
  expect(gateway.calls.filter((name) => name === 'findApplicationOwner')).toHaveLength(1)
})

test('a catalog of the release before, which has no FindApplicationOwner, is asked the way it knows', async () => {
  const earlier = CatalogService.methods.filter(({ name }) => name !== 'FindApplicationOwner')
  const asked: object[] = []
  const handlers: Partial<Handlers<typeof CatalogService>> = {
    getApplication: async ({ accountId: asker, applicationId }) => {
      asked.push({ asker, applicationId })
      if (applicationId === otherAccountAppId) throw new ServiceError('not_found', 'no application')
      return { id: applicationId, accountId }
    },
  }
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: [
      implement({ ...CatalogService, methods: earlier }, handlers as Handlers<typeof CatalogService>),
    ],
    log: createLogger('catalog', 'silent'),
    health: new Health(),
  })
  const catalog = connectTo(CatalogService, `127.0.0.1:${server.port}`)
  try {
    const applications = new Applications(catalog.calls)
    expect(await applications.accountOf(appId)).toBe(accountId)
    expect(asked).toEqual([{ asker: '', applicationId: appId }])
    await expect(async () => applications.accountOf(otherAccountAppId)).rejects.toMatchObject({
      code: 'not_found',
      message: `there is no application ${otherAccountAppId}`,
    })
  } finally {
    catalog.close()
    await server.stop()
  }
})
