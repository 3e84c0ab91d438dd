import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import { expect, test } from 'vitest'
import { appId, startGateway } from '../../test/gateway.ts'
import { routes } from '../routes/table.ts'
import { errorsOf } from './route-errors.ts'

test('each code of the catalogue is declared by a route, or is sent before a route is found', () => {
  const declared = new Set<string>(routes.flatMap(errorsOf))
  expect(Object.keys(errorCatalogue).filter((code) => !declared.has(code))).toEqual(['method_not_allowed'])
})

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
