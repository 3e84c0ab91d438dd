import { readFileSync } from 'node:fs'
import { afterAll, describe, expect, test } from 'vitest'
import { Driver } from './driver.ts'
import { languages } from './languages.ts'

/** A delivery as `vectors/README.md` describes it. */
interface Delivery {
  readonly name: string
  readonly clock: string
  readonly body?: string
  readonly body_base64?: string
  readonly reason: string | null
  readonly [field: string]: unknown
}

const file = new URL('../../vectors/webhooks.json', import.meta.url)
const deliveries = JSON.parse(readFileSync(file, 'utf8')) as readonly Delivery[]
const named = deliveries.map((delivery) => [delivery.name, delivery] as const)

describe.each(languages)('$name verifies a webhook', async (language) => {
  const driver = await Driver.start(language)
  afterAll(() => driver[Symbol.asyncDispose]())

  test.each(named)('%s', async (_, { name: _name, clock: now, body, reason, ...given }) => {
    const body_base64 = given.body_base64 ?? Buffer.from(body ?? '').toString('base64')
    const { id: _id, ...answer } = await driver.ask('verify_webhook', {
      argument: { ...given, body_base64, now },
    })
    expect(answer).toEqual(reason === null ? { event: JSON.parse(body ?? '') } : { reason })
  })
})
