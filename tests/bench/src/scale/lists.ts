import { cursorAfter } from '../../../../gateway/src/fields/page.ts'
import { takingTurns } from '../load.ts'
import { atMost } from '../report.ts'
import type { Figure } from '../report.ts'
import { licenceId } from './population.ts'
import type { Population } from './population.ts'

type Get = (path: string) => Promise<unknown>

const goal = 1.3

/** Pages of the list at every depth and with every filter, compared with the first page; and `active_licences`, compared with a plan of ten. */
export async function listsAndCounts(
  get: Get,
  appId: string,
  people: Population,
  rounds: number,
): Promise<Figure[]> {
  const { count, commonPlan, archivePlan, planOfTen, recently, lately, longAgo } = people
  const common = 'common.example.com'
  const filters: Record<string, Record<string, string>> = {
    'no filter': {},
    'status=active': { status: 'active' },
    'status=revoked': { status: 'revoked' },
    'status=downgraded': { status: 'downgraded' },
    plan: { plan: commonPlan },
    'plan of ten': { plan: planOfTen },
    'plan, status=suspended': { plan: commonPlan, status: 'suspended' },
    external_ref: { external_ref: 'customer-7' },
    'external_ref, status=active': { external_ref: 'customer-7', status: 'active' },
    'external_ref, last_seen, many': { external_ref: 'customer-7', last_seen: longAgo },
    'domain of many': { domain: common },
    'domain of few': { domain: 'host-3.example.com' },
    'domain of many, status=suspended': { domain: common, status: 'suspended' },
    'domain of many, plan': { domain: common, plan: commonPlan },
    'domain of many, last_seen, many': { domain: common, last_seen: longAgo },
    'domain of many, last_seen, a tenth, plan, status=suspended': {
      domain: common,
      last_seen: lately,
      plan: commonPlan,
      status: 'suspended',
    },
    'last_seen=never': { last_seen: 'never' },
    'last_seen, few': { last_seen: recently },
    'last_seen, a tenth': { last_seen: lately },
    'last_seen, many': { last_seen: longAgo },
    'last_seen, many, status=active': { last_seen: longAgo, status: 'active' },
    'last_seen, a tenth, status=suspended': { last_seen: lately, status: 'suspended' },
    'plan of ten, last_seen, many': { plan: planOfTen, last_seen: longAgo },
    'plan, last_seen=never, status=active': { plan: commonPlan, last_seen: 'never', status: 'active' },
    // Combinations of large sets without a common licence are the worst case.
    'none in all: domain of many, status=retired': { domain: common, status: 'retired' },
    'none in all: domain of many, plan': { domain: common, plan: archivePlan },
    'none in all: last_seen, many, status=retired': { last_seen: longAgo, status: 'retired' },
    'none in all: last_seen, many, plan': { last_seen: longAgo, plan: archivePlan },
    'none in all: domain of many, last_seen=never, plan': {
      domain: common,
      last_seen: 'never',
      plan: archivePlan,
    },
  }
  const depths: [string, number][] = [
    ['first page', 0],
    ['half way', 0.5],
    ['near the end', 0.98],
  ]
  const kinds = new Map<string, () => Promise<unknown>>()
  for (const [filter, query] of Object.entries(filters)) {
    for (const [depth, share] of depths) {
      const cursor = share === 0 ? {} : { cursor: cursorAfter(licenceId(Math.round(count * (1 - share)))) }
      const search = new URLSearchParams({ ...query, ...cursor }).toString()
      kinds.set(`list, ${filter}, ${depth}`, () => get(`/v1/apps/${appId}/licences?${search}`))
    }
  }
  const [first = '', ...others] = kinds.keys()
  kinds.set('active_licences, plan of ten', () => get(`/v1/apps/${appId}/plans/${planOfTen}`))
  kinds.set('active_licences, plan of most', () => get(`/v1/apps/${appId}/plans/${commonPlan}`))
  const times = await takingTurns(kinds, rounds)
  const figure = (name: string): Figure => ({ name, value: times.get(name)!, unit: 'ms' })
  const [firstPage, ofTen] = [figure(first), figure('active_licences, plan of ten')]
  return [
    firstPage,
    ...others.map((name) => atMost(name, times.get(name)!, 'ms', firstPage, goal)),
    ofTen,
    atMost('active_licences, plan of most', times.get('active_licences, plan of most')!, 'ms', ofTen, goal),
  ]
}
