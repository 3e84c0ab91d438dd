import { cursorAfter } from '../../../../gateway/src/fields/page.ts'
import { takingTurns } from '../load.ts'
import { atMost, quantile } from '../report.ts'
import type { Figure } from '../report.ts'
import { licenceId, licenceKey } from '../scale/population.ts'
import type { Population } from '../scale/population.ts'
import { activationId, chargeRef, deliveryId, endpointOf, eventId, legacyKey, saleId } from './history.ts'
import type { History } from './history.ts'

type Get = (path: string) => Promise<unknown>
type Kinds = Map<string, () => Promise<unknown>>

const searchGoal = 5
const metricsGoal = 5
const listGoal = 1.3

/** Returns a different number each time, spread over the whole range. */
function numbers(count: number): () => number {
  let n = 0
  return () => 1 + ((n++ * 7_919 + 13) % count)
}

const p99 = (times: number[]) => quantile(times, 0.99)

/** Each kind of search, and a year of each metric, compared with a licence's detail: the 99th percentile. */
export async function searchAndMetrics(
  get: Get,
  appId: string,
  { count }: Population,
  history: History,
  rounds: number,
): Promise<Figure[]> {
  const [any, anySold] = [numbers(count), numbers(history.sales)]
  const search = (q: string) => get(`/v1/apps/${appId}/search?q=${encodeURIComponent(q)}`)
  const hundredth = () => Math.max(100, Math.floor(any() / 100) * 100)
  const tenth = () => Math.max(10, Math.floor(anySold() / 10) * 10)
  const searches: Kinds = new Map(
    Object.entries({
      id: () => search(licenceId(any())),
      key: () => search(licenceKey(any()).toLowerCase().replaceAll('-', '')),
      legacy_key: () => search(legacyKey(hundredth())),
      activation_id: () => search(activationId(any())),
      charge_ref: () => search(chargeRef(anySold())),
      session_id: () => search(saleId('cs', history, anySold())),
      sale_id: () => search(`order-${tenth()}`),
      host: () => search(`HOST-${any() % Math.floor(count / 10)}.example.com`),
      'host of a fifth of all': () => search('common.example.com'),
      'external_ref, whole': () => search(`customer-${any() % Math.floor(count / 10)}`),
      'external_ref, beginning of some hundred': () => search(`Customer-${100 + (any() % 900)}`),
      'external_ref, beginning of all': () => search('cust'),
      'nothing found': () => search(`nobody-${any()}`),
    }).map(([kind, call]) => [`search: ${kind}`, call]),
  )
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)
  const metrics: Kinds = new Map(
    ['licences', 'activations', 'deliveries', 'payments'].map((metric) => [
      `metrics of a year: ${metric}`,
      () => get(`/v1/apps/${appId}/metrics?metric=${metric}&from=${day(364)}&to=${day(0)}&step=day`),
    ]),
  )
  const name = 'detail of a licence, p99'
  const kinds: Kinds = new Map([
    [name, () => get(`/v1/licences/${licenceId(any())}`)],
    ...searches,
    ...metrics,
  ])
  const times = await takingTurns(kinds, rounds, p99)
  const detail: Figure = { name, value: times.get(name)!, unit: 'ms' }
  const beside = (kind: string, goal: number) => atMost(`${kind}, p99`, times.get(kind)!, 'ms', detail, goal)
  return [
    detail,
    ...[...searches.keys()].map((kind) => beside(kind, searchGoal)),
    ...[...metrics.keys()].map((kind) => beside(kind, metricsGoal)),
  ]
}

interface List {
  path: string
  rows: number
  id: (n: number) => string
  filters: Record<string, Record<string, string>>
}

/** Pages of the lists of payments and deliveries with each filter at three depths, compared with the list's first page. */
export async function lists(get: Get, appId: string, history: History, rounds: number): Promise<Figure[]> {
  const { sales, deliveries, middle } = history
  const someone = Math.ceil(sales / 2)
  const all: Record<string, List> = {
    payments: {
      path: 'payments',
      rows: sales,
      id: (n) => saleId('pay', history, n),
      filters: {
        licence: { licence: licenceId(someone) },
        charge_ref: { charge_ref: chargeRef(someone) },
        since: { since: middle },
        until: { until: middle },
      },
    },
    'checkout sessions': {
      path: 'checkout-sessions',
      rows: sales,
      id: (n) => saleId('cs', history, n),
      filters: {
        'status=provisioned': { status: 'provisioned' },
        'status=expired': { status: 'expired' },
        external_ref: { external_ref: `customer-${someone}` },
        until: { until: middle },
      },
    },
    'sale events': {
      path: 'sale-events',
      rows: sales,
      id: (n) => saleId('sale', history, n),
      filters: { 'status=provision_failed': { status: 'provision_failed' }, since: { since: middle } },
    },
    deliveries: {
      path: 'webhook-deliveries',
      rows: deliveries,
      id: (n) => deliveryId(history, n),
      filters: {
        'status=failed': { status: 'failed' },
        'status=delivered': { status: 'delivered' },
        type: { type: 'licence.revoked' },
        endpoint: { endpoint: endpointOf(1) },
        event: { event: eventId(someone) },
        licence: { licence: licenceId(someone) },
        since: { since: middle },
        until: { until: middle },
        'status=failed, type': { status: 'failed', type: 'licence.revoked' },
      },
    },
  }
  const figures: Figure[] = []
  for (const [name, list] of Object.entries(all)) {
    figures.push(...(await pagesOf(get, appId, name, list, rounds)))
  }
  return figures
}

async function pagesOf(
  get: Get,
  appId: string,
  name: string,
  { path, rows, id, filters }: List,
  rounds: number,
): Promise<Figure[]> {
  const kinds: Kinds = new Map()
  for (const [filter, query] of Object.entries({ 'no filter': {}, ...filters })) {
    for (const depth of ['first page', 'half way', 'near the end']) {
      const share = { 'first page': 0, 'half way': 0.5, 'near the end': 0.98 }[depth]!
      const at = rows * (1 - share)
      const cursor = share === 0 ? {} : { cursor: cursorAfter(id(Math.round(at))) }
      const search = new URLSearchParams({ ...query, ...cursor }).toString()
      kinds.set(`${name}, ${filter}, ${depth}`, () => get(`/v1/apps/${appId}/${path}?${search}`))
    }
  }
  const times = await takingTurns(kinds, rounds)
  const [firstName = '', ...others] = kinds.keys()
  const first: Figure = { name: firstName, value: times.get(firstName)!, unit: 'ms' }
  return [first, ...others.map((one) => atMost(one, times.get(one)!, 'ms', first, listGoal))]
}
