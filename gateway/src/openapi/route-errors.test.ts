import { ServiceError } from '@licensing/grpc/errors'
import { expect, test } from 'vitest'
import { appId, startGateway } from '../../test/gateway.ts'

test('a code that the route does not declare is sent unchanged, and fails the test in which it occurred', async () => {
  const gateway = await startGateway()
  gateway.answers.catalog.listPlans = () =>
    Promise.reject(new ServiceError('spend_cap_reached', 'the budget is spent'))
  const answer = await fetch(`${gateway.url}/v1/apps/${appId}/plans`, {
    headers: { authorization: `Bearer ${gateway.apiKey}` },
  })
  expect(answer.status).toBe(409)
  expect(await answer.json()).toMatchObject({ code: 'spend_cap_reached', detail: 'the budget is spent' })
  await expect(gateway[Symbol.asyncDispose]()).rejects.toThrow('codes that their routes do not declare')
})
