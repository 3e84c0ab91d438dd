import { randomBytes } from 'node:crypto'
import { connect } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { mintLicences } from '../../../services/licensing/src/licences/issue-queries.ts'
import { newLicenceKey } from '../../../services/licensing/src/lifecycle/licence-key.ts'
import { scaledSeconds } from './bench-scale.ts'
import { load, loop, type LoadResult } from './load.ts'
import { isProfiling, startProfiling } from './profile.ts'
import { atLeast, median, type Figure, type Section } from './report.ts'
import { startSetting } from './setting.ts'
import { givenDefinitions, givenLicences, givenPlan, withKey } from './vendor.ts'

const rounds = 3
const seconds = scaledSeconds(4)

/** Issue and detail through the gateway, compared with the same route to an echo and with the bare statement. */
export async function issueAndDetail(): Promise<Section> {
  await using setting = await startSetting()
  const { stack } = setting
  const echo = await setting.echoGateway()
  await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'pro')
  const [licenceId] = await givenLicences(stack, planId, 1, 'first')
  const headers = withKey(stack)
  const printProfile = await startProfiling(stack, ['gateway', 'licensing'])
  const issuePath = `/v1/apps/${stack.appId}/licences`
  const issue = (gateway: string) =>
    load(
      gateway,
      201,
      () => ({
        method: 'POST',
        path: issuePath,
        headers: { ...headers, 'idempotency-key': randomBytes(12).toString('hex') },
        body: JSON.stringify({ external_ref: 'customer-1', plan_id: planId }),
      }),
      { seconds },
    )
  const detail = (gateway: string) =>
    load(gateway, 200, () => ({ method: 'GET', path: `/v1/licences/${licenceId}`, headers }), { seconds })

  const sql = connect(stack.databaseUrls.licensing, { name: 'bench', max: 16 })
  const bare = () =>
    loop(
      () =>
        mintLicences(
          sql,
          [
            {
              id: newId('lic'),
              key: newLicenceKey(),
              accountId: stack.accountId,
              applicationId: stack.appId,
              planId,
              actor: 'bench',
              externalRef: 'customer-1',
              domains: [],
              maxActivations: null,
              maxSeats: null,
              maxConcurrent: null,
              leaseMinutes: null,
              expiresOn: null,
              metadata: {},
              updatesUntil: null,
              idempotencyKey: randomBytes(12).toString('hex'),
              bodyHash: '00'.repeat(32),
            },
          ],
          'wait',
        ),
      16,
      seconds,
    )

  const results = { issue: [], issueEcho: [], detail: [], detailEcho: [] } as Record<string, LoadResult[]>
  const bareRates: number[] = []
  await issue(stack.gatewayUrl)
  for (let round = 0; round < rounds; round += 1) {
    results.issueEcho!.push(await issue(echo))
    results.issue!.push(await issue(stack.gatewayUrl))
    bareRates.push(await bare())
    results.detailEcho!.push(await detail(echo))
    results.detail!.push(await detail(stack.gatewayUrl))
  }
  await sql.end()
  await printProfile()
  const wrong = Object.values(results)
    .flat()
    .reduce((sum, each) => sum + each.wrong, 0)
  const rate = (name: string) => median(results[name]!.map((each) => each.perSecond))
  const p99 = (name: string) => median(results[name]!.map((each) => each.p99Ms))
  const figure = (name: string, value: number, unit = '/s'): Figure => ({ name, value, unit })
  const issueEcho = figure('issue, echo RPC', rate('issueEcho'))
  const bareStatement = figure('issue, bare statement', median(bareRates))
  const detailEcho = figure('detail, echo RPC', rate('detailEcho'))
  return {
    title:
      'Issue and detail through the gateway (64 connections; load, stack and PostgreSQL share the machine)',
    figures: [
      issueEcho,
      bareStatement,
      atLeast('issue', rate('issue'), '/s', issueEcho, 0.75),
      atLeast('issue', rate('issue'), '/s', bareStatement, 0.5),
      figure('issue p99', p99('issue'), 'ms'),
      detailEcho,
      atLeast('detail', rate('detail'), '/s', detailEcho, 0.8),
      figure('detail p99', p99('detail'), 'ms'),
    ],
    notes: [
      `answers without the expected status: ${wrong}`,
      ...(isProfiling ? ['the profiler was on, which slows the services more than the floors'] : []),
    ],
  }
}
