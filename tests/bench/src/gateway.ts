import { randomBytes } from 'node:crypto'
import { connect } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import type { Stack } from '@licensing/test-support/stack-shape'
import { insertLicences } from '../../../services/licensing/src/licences/issue-queries.ts'
import { licenceFields } from '../../../services/licensing/src/lifecycle/licence-fields.ts'
import { newLicenceKey } from '../../../services/licensing/src/lifecycle/licence-key.ts'
import { scaledSeconds } from './bench-scale.ts'
import { usualCalls } from './calls.ts'
import type { Calls } from './calls.ts'
import { load, loop } from './load.ts'
import { startProfiling } from './profile.ts'
import { atLeast, median } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'
import { givenDefinitions, givenInstallations, givenLicences, givenPlan } from './vendor.ts'

const rounds = 5
const seconds = scaledSeconds(1.5)

/**
 * The most frequent calls through the gateway, beside the same routes to an echo, and an issue beside its bare statement. The
 * routes to the echo are compared with the same routes of only fastify and grpc-js.
 */
export async function gateway(): Promise<Section> {
  await using setting = await startSetting()
  const { stack } = setting
  const urls = { plain: await setting.plainEcho(), echo: await setting.echoGateway(), ours: stack.gatewayUrl }
  await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'pro')
  const [licenceId] = await givenLicences(stack, planId, 1, 'first')
  const installations = await givenInstallations(stack, planId, 200)
  const endProfiling = await startProfiling(stack, ['gateway', 'licensing'])
  const list = `/v1/apps/${stack.appId}/revocations`
  const etag = (await fetch(`${stack.gatewayUrl}${list}`)).headers.get('etag')!
  const requests: Record<string, Calls> = {
    ...usualCalls(stack, { planId, licenceId: licenceId!, installations }),
    poll: [304, () => ({ method: 'GET', path: list, headers: { 'if-none-match': etag } })],
  }
  const sql = connect(stack.databaseUrls.licensing, { name: 'bench', max: 16 })
  const rates = new Map<string, number[]>()
  const measured = (round: number, name: string, perSecond: number) => {
    // The first round only warms up.
    if (round > 0) rates.set(name, [...(rates.get(name) ?? []), perSecond])
  }
  for (let round = 0; round <= rounds; round += 1) {
    for (const [name, [status, next]] of Object.entries(requests)) {
      for (const [which, url] of Object.entries(urls)) {
        if (name === 'poll' && which !== 'ours') continue
        const { perSecond, wrong } = await load(url, status, next, { seconds })
        if (wrong > 0) throw new Error(`${wrong} answers to ${name}, ${which}, were not ${status}`)
        measured(round, `${name} ${which}`, perSecond)
      }
    }
    measured(
      round,
      'issue bare',
      await loop(
        () => insertLicences(sql, { kind: 'issued', licences: [issueOf(stack, planId)] }, 'wait'),
        16,
        seconds,
      ),
    )
  }
  await sql.end()
  await endProfiling()
  const rate = (name: string) => median(rates.get(name)!)
  const floor = (name: string, key: string): Figure => ({ name, value: rate(key), unit: '/s' })
  const plain = floor('issue, fastify and grpc-js alone', 'issue plain')
  const plainRefresh = floor('refresh, fastify and grpc-js alone', 'refresh plain')
  const echo = floor('issue, echo RPC', 'issue echo')
  const bare = floor('issue, bare statement', 'issue bare')
  const detailEcho = floor('detail, echo RPC', 'detail echo')
  const refreshEcho = floor('refresh, echo RPC', 'refresh echo')
  return {
    title: 'Calls through the gateway (64 connections; load, stack and PostgreSQL share the machine)',
    figures: [
      plain,
      atLeast(echo.name, echo.value, '/s', plain, 0.8),
      plainRefresh,
      atLeast(refreshEcho.name, refreshEcho.value, '/s', plainRefresh, 0.8),
      bare,
      atLeast('issue', rate('issue ours'), '/s', echo, 0.8),
      atLeast('issue', rate('issue ours'), '/s', bare, 0.5),
      detailEcho,
      atLeast('detail', rate('detail ours'), '/s', detailEcho, 0.95),
      atLeast('refresh', rate('refresh ours'), '/s', refreshEcho, 0.8),
      atLeast('unchanged revocation list (304)', rate('poll ours'), '/s', detailEcho, 1),
    ],
    notes: [],
  }
}

function issueOf({ accountId, appId: applicationId }: Stack, planId: string) {
  return {
    ...licenceFields.none,
    id: newId('lic'),
    key: newLicenceKey(),
    account_id: accountId,
    application_id: applicationId,
    plan_id: planId,
    actor: 'bench',
    external_ref: 'customer-1',
    idempotency_key: randomBytes(12).toString('hex'),
    idempotency_hash: new Uint8Array(32),
  }
}
