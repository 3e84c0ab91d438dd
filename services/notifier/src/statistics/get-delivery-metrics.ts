import { timestampDate } from '@bufbuild/protobuf/wkt'
import { messageOf } from '@licensing/grpc/fields'
import { invalid } from '@licensing/grpc/errors'
import { DeliveryMetricsPointSchema } from '@licensing/proto/notifier'
import type { DeliveryMetricsPoint } from '@licensing/proto/notifier'
import type { Handler } from '../dependencies.ts'
import { latencyWithin } from './latency-buckets.ts'
import { listDeliveryCounts } from './statistics-queries.ts'
import type { DeliveryCounts } from './statistics-queries.ts'

const steps = ['day', 'hour']

export const getDeliveryMetrics: Handler<'getDeliveryMetrics'> = async (
  { sql },
  { accountId, applicationId, step, from, to },
) => {
  if (!steps.includes(step)) throw invalid('/step', `must be one of ${steps.join(', ')}`)
  if (!from || !to) throw invalid(from ? '/to' : '/from', 'is required')
  const counts = await listDeliveryCounts(sql, {
    accountId,
    applicationId,
    step,
    from: timestampDate(from),
    to: timestampDate(to),
  })
  return { points: counts.map(pointOf) }
}

function pointOf(counts: DeliveryCounts): DeliveryMetricsPoint {
  const latencies = counts.latency_counts.split(',').map(Number)
  const within = (share: number) => {
    const ms = latencyWithin(latencies, share)
    return ms === undefined ? null : BigInt(ms)
  }
  return messageOf(DeliveryMetricsPointSchema, { ...counts, p50_ms: within(0.5), p95_ms: within(0.95) })
}
