import type { Sql } from '@licensing/database/connect'
import type { Stack } from '@licensing/test-support/stack-shape'
import { scaled, scaledSeconds } from '../bench-scale.ts'
import { load, loop } from '../load.ts'
import type { LoadResult } from '../load.ts'
import { beside, median } from '../report.ts'
import type { Figure } from '../report.ts'
import { bareSigner, givenInstallations, productCall } from './tokens.ts'

const rounds = 3

/** Refreshes through the gateway, beside the same route to an echo, beside a loop that only signs; and call-homes. */
export async function refreshes(
  stack: Stack,
  echo: string,
  sql: Sql,
): Promise<{ figures: Figure[]; notes: string[] }> {
  const installations = await givenInstallations(stack, scaled(2_000, 20))
  const of = (n: number) => installations[n % installations.length]!
  const seconds = scaledSeconds(4)
  const refresh = (gateway: string) => load(gateway, 200, (n) => productCall(of(n), 'refresh'), { seconds })
  const callHome = () => load(stack.gatewayUrl, 204, (n) => productCall(of(n), 'call-home'), { seconds })
  const sign = await bareSigner(of(0).token)

  const results = { refresh: [] as LoadResult[], echo: [] as LoadResult[], callHome: [] as LoadResult[] }
  const bareRates: number[] = []
  const callsPerWrite: number[] = []
  await refresh(stack.gatewayUrl)
  for (let round = 0; round < rounds; round += 1) {
    bareRates.push(await loop(sign, 64, seconds))
    results.echo.push(await refresh(echo))
    results.refresh.push(await refresh(stack.gatewayUrl))
    const before = new Date()
    results.callHome.push(await callHome())
    callsPerWrite.push(await gathered(sql, before))
  }
  const wrong = Object.values(results)
    .flat()
    .reduce((sum, each) => sum + each.wrong, 0)
  const rate = (of: LoadResult[]) => median(of.map((each) => each.perSecond))
  const p99 = (of: LoadResult[]) => median(of.map((each) => each.p99Ms))
  const bare: Figure = { name: 'bare loop signing the same token', value: median(bareRates), unit: '/s' }
  const echoed: Figure = { name: 'refresh, echo RPC', value: rate(results.echo), unit: '/s' }
  return {
    figures: [
      bare,
      echoed,
      beside('refresh', rate(results.refresh), '/s', bare),
      beside('refresh', rate(results.refresh), '/s', echoed),
      { name: 'refresh p99', value: p99(results.refresh), unit: 'ms' },
      { name: 'call-homes', value: rate(results.callHome), unit: '/s' },
      { name: 'call-homes gathered', value: median(callsPerWrite), unit: 'calls/write' },
    ],
    notes: [`answers of another status than expected: ${wrong}`],
  }
}

/** Calls recorded since, by transaction: each row bears the one that wrote it. No licence calls more than 50 times. */
async function gathered(sql: Sql, since: Date): Promise<number> {
  const [row] = await sql<{ calls: number; writes: number }[]>`
    select count(*)::int as calls, count(distinct xmin::text)::int as writes from call_homes
    where seen_at >= ${since}`
  return row!.calls / row!.writes
}
