import { createLogger } from '@licensing/process/log'
import { closedSets } from '@licensing/proto/closed-sets'
import type { SetName } from '@licensing/proto/closed-sets'
import { beforeEach, expect, test } from 'vitest'
import { appId, gatewayOfFile, hashOf } from '../test/gateway.ts'
import type { StandIns } from '../test/gateway.ts'

const logged: { err?: Error }[] = []
const log = createLogger('test', 'silent')
log.error = (line: unknown) => void logged.push(line as { err?: Error })

const gateway = await gatewayOfFile({}, log)
beforeEach(() => void (logged.length = 0))

const at = { seconds: 1_793_000_000n, nanos: 0 }
const licence = { id: 'lic_1', status: 'active', createdAt: at, updatedAt: at }
const app = `/v1/apps/${appId}`

type AnswerWith = (answers: StandIns, word: string) => void

const refund =
  (lane: string): AnswerWith =>
  ({ billing }, status) => {
    billing.listRefunds = async () => ({ refunds: [{ id: 'rfd_1', lane, status, occurredAt: at }] })
  }

/** Some fields with a word of a closed set. The compiler demands that each field of an answer with a closed set is checked. */
const readings: [set: SetName, path: string, AnswerWith][] = [
  [
    'licenceStatus',
    '/v1/licences/lic_01k9zj3v8qe5ktw2m4x6r7n8ab',
    ({ licensing }, status) => {
      licensing.getLicence = async () => ({ licence: { ...licence, status } })
    },
  ],
  [
    'scope',
    '/v1/api-keys',
    ({ catalog }, scope) => {
      catalog.listApiKeys = async () => ({
        apiKeys: [{ id: 'key_1', scopes: ['read', scope], createdAt: at }],
      })
    },
  ],
  ['refundStatus', `${app}/refunds`, refund('full_refund')],
  ['disputeStatus', `${app}/refunds`, refund('chargeback')],
]

const expectInternal = (set: SetName, answer: { status: number; body: object }) => {
  expect(answer.status).toBe(500)
  expect(answer.body).toMatchObject({ code: 'internal', detail: 'something failed on our side' })
  expect(JSON.stringify(answer.body)).not.toContain('frozen')
  expect(logged.map(({ err }) => err?.message)).toEqual([
    expect.stringContaining(`"frozen" is no ${set}: known are ${closedSets[set][0]}`),
  ])
}

test.each(readings)(
  'a word of a service that is no %s is an internal error, logged with set and word',
  async (set, path, answer) => {
    for (const word of closedSets[set]) {
      answer(gateway.answers, word)
      expect((await gateway.api.get(path)).status, word).toBe(200)
    }
    answer(gateway.answers, 'frozen')
    expectInternal(set, await gateway.api.get(path))
  },
)

test('an unknown scope of the calling key is an internal error, and the next call asks again', async () => {
  const key = gateway.keyWith(['read'])
  const scopes: string[] = gateway.keys.get(hashOf(key))!.scopes
  scopes.push('frozen')
  expectInternal('scope', await gateway.api.get(`${app}/licences`, { key }))
  scopes.pop()
  gateway.answers.licensing.listLicences = async () => ({})
  expect((await gateway.api.get(`${app}/licences`, { key })).status).toBe(200)
})
