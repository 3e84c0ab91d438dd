import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { invalid } from '@licensing/grpc/errors'
import type { DeliveryMetricsPointSchema } from '@licensing/proto/notifier'
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

function pointOf(counts: DeliveryCounts): MessageInitShape<typeof DeliveryMetricsPointSchema> {
  const latencies = counts.latency_counts.split(',').map(Number)
  const [p50, p95] = [latencyWithin(latencies, 0.5), latencyWithin(latencies, 0.95)]
  return {
    at: timestampFromDate(counts.at),
    delivered: counts.delivered,
    failedAttempts: counts.failed_attempts,
    ...(p50 !== undefined && { p50Ms: BigInt(p50) }),
    ...(p95 !== undefined && { p95Ms: BigInt(p95) }),
  }
}
