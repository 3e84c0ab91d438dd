import { Gauge, register } from 'prom-client'
import { expect, test } from 'vitest'
import { Health } from './health.ts'
import { createLogger } from './log.ts'
import { measureWhenScraped } from './measures.ts'
import { startOperationsServer } from './operations-server.ts'

const log = createLogger('test', 'silent')

async function givenOperations() {
  const server = await startOperationsServer({ host: '127.0.0.1', port: 0 }, new Health())
  return {
    scrape: async () => (await fetch(`http://127.0.0.1:${server.port}/metrics`)).text(),
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

test('a gauge is measured only when the metrics are read', async () => {
  await using operations = await givenOperations()
  const gauge = new Gauge({ name: 'measured_when_read', help: 'test' })
  let measured = 0
  const end = measureWhenScraped(log, 'test', async () => gauge.set((measured += 1)))
  expect(measured).toBe(0)
  expect(await operations.scrape()).toContain('measured_when_read 1\n')
  expect(await operations.scrape()).toContain('measured_when_read 2\n')
  end()
  expect(await operations.scrape()).toContain('measured_when_read 2\n')
  register.removeSingleMetric('measured_when_read')
})

test('a measurement that fails or does not end does not affect other metrics, and is not started twice', async () => {
  await using operations = await givenOperations()
  const gauge = new Gauge({ name: 'measured_well', help: 'test' })
  const stalled = Promise.withResolvers<void>()
  let begun = 0
  const ends = [
    measureWhenScraped(log, 'fails', () => Promise.reject(new Error('refused'))),
    measureWhenScraped(log, 'stalls', () => ((begun += 1), stalled.promise)),
    measureWhenScraped(log, 'well', async () => gauge.set(7)),
  ]
  for (const answer of await Promise.all([operations.scrape(), operations.scrape()])) {
    expect(answer).toContain('measured_well 7\n')
  }
  expect(begun).toBe(1)
  stalled.resolve()
  for (const end of ends) end()
  register.removeSingleMetric('measured_well')
})
