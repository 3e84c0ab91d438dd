import { randomBytes } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { connect } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TestProcess } from '@licensing/test-support/test-process'
import { mintLicences } from '../../../services/licensing/src/licences/issue-queries.ts'
import { newLicenceKey } from '../../../services/licensing/src/lifecycle/licence-key.ts'
import { scaledSeconds } from './bench-scale.ts'
import { load, loop, type LoadResult } from './load.ts'
import { atLeast, median, type Figure, type Section } from './report.ts'
import { startSetting } from './setting.ts'
import { givenDefinitions, givenLicences, givenPlan, withKey } from './vendor.ts'

const rounds = 3
const seconds = scaledSeconds(4)

/** Issue and detail through the gateway, beside the same route to an echo, beside the bare statement. */
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
      `answers of another status than expected: ${wrong}`,
      ...(isProfiling ? ['the profiler was on: it slows what it watches, and the floors less'] : []),
    ],
  }
}

/** Whether this run was asked where CPU time goes. The profiler slows what it watches: such a run's figures count for nothing else. */
const isProfiling = process.argv.includes('--profile')

const functionsShown = 25
const packagesShown = 15

interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }[]
  samples: number[]
  timeDeltas: number[]
}

/**
 * Starts these services of the stack again with V8's profiler on; does nothing unless the run was asked for it.
 *
 * @returns stops them and prints their top functions by self time, and the packages they are of
 */
async function startProfiling(
  stack: Stack,
  services: readonly ('gateway' | 'licensing')[],
): Promise<() => Promise<void>> {
  if (!isProfiling) return () => Promise.resolve()
  const folder = await makeTemporaryFolder()
  const watched = services.flatMap((service) => stack.processes[service])
  for (const service of watched) {
    await service.start({ NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${folder.path}/${service.name}` })
  }
  return async () => {
    for (const service of watched) await print(service, `${folder.path}/${service.name}`)
    await folder[Symbol.asyncDispose]()
  }
}

async function print(service: TestProcess, folder: string): Promise<void> {
  // The profile is written when the process ends.
  await service.stop()
  const [file = ''] = (await readdir(folder)).filter((name) => name.endsWith('.cpuprofile'))
  const profile = JSON.parse(await readFile(`${folder}/${file}`, 'utf8')) as CpuProfile
  const { byFunction, byPackage } = selfTimes(profile)
  process.stdout.write(`\n${service.name}: self time by package\n${table(byPackage, packagesShown)}`)
  process.stdout.write(`${service.name}: self time by function\n${table(byFunction, functionsShown)}`)
}

function selfTimes({ nodes, samples, timeDeltas }: CpuProfile) {
  const byFunction = new Map<string, number>()
  const byPackage = new Map<string, number>()
  const frames = new Map(nodes.map(({ id, callFrame }) => [id, callFrame]))
  for (const [at, id] of samples.entries()) {
    const { functionName, url, lineNumber } = frames.get(id)!
    if (functionName === '(idle)') continue
    const owner = packageOf(url, functionName)
    const line = url === '' ? '' : ` ${url.split('/').at(-1)}:${lineNumber + 1}`
    add(byPackage, owner, timeDeltas[at]!)
    add(byFunction, `${owner}  ${functionName || '(anonymous)'}${line}`, timeDeltas[at]!)
  }
  return { byFunction, byPackage }
}

function add(times: Map<string, number>, name: string, time: number): void {
  times.set(name, (times.get(name) ?? 0) + time)
}

function packageOf(url: string, functionName: string): string {
  if (url === '') return functionName.startsWith('(') ? functionName : '(native)'
  if (url.startsWith('node:')) return 'node'
  const dependency = url.split('/node_modules/').at(-1)!
  if (dependency !== url)
    return dependency
      .split('/')
      .slice(0, dependency.startsWith('@') ? 2 : 1)
      .join('/')
  return /\/((?:packages|services)\/[^/]+|gateway|proto)\//.exec(url)?.[1] ?? url
}

function table(times: Map<string, number>, shown: number): string {
  const total = [...times.values()].reduce((sum, time) => sum + time, 0)
  return [...times]
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, shown)
    .map(([name, time]) => `  ${((time / total) * 100).toFixed(1).padStart(5)} %  ${name}\n`)
    .join('')
}
