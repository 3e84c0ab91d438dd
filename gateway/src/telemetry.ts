import type { Logger } from '@licensing/process/log'
import { contextFrom, isTracing } from '@licensing/process/telemetry'
import type { Context, Span } from '@opentelemetry/api'
import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Histogram } from 'prom-client'

const durations = new Histogram({
  name: 'http_server_duration_seconds',
  help: 'Time from a request’s arrival to its answer',
  labelNames: ['method', 'route', 'status'],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
})

const slowMs = 1_000

/** Begins the span of a request, as a child of the caller's span if there is one. Returns no span if spans are not recorded. */
export function startSpan(request: FastifyRequest): { span: Span | null; context: Context } {
  const header = (name: string) => request.headers[name]?.toString()
  const parent = contextFrom({ traceparent: header('traceparent'), tracestate: header('tracestate') })
  if (!isTracing()) return { span: null, context: parent }
  const span = trace.getTracer('licensing').startSpan(
    `${request.method} ${routeOf(request)}`,
    {
      kind: SpanKind.SERVER,
      attributes: { 'http.request.method': request.method, 'request.id': request.id },
    },
    parent,
  )
  return { span, context: trace.setSpan(parent, span) }
}

/** Ends the span, counts the request, and writes its access line. */
export function recordAnswer(
  log: Logger,
  request: FastifyRequest,
  reply: FastifyReply,
  span: Span | null,
): void {
  const { statusCode, elapsedTime } = reply
  durations.observe(
    { method: request.method, route: routeOf(request), status: statusCode },
    elapsedTime / 1000,
  )
  span?.setAttribute('http.response.status_code', statusCode)
  if (statusCode >= 500) span?.setStatus({ code: SpanStatusCode.ERROR })
  span?.end()
  // Fast successful requests are only counted in the metrics: a log line for each would cost more than the request.
  const level = statusCode >= 500 ? 'warn' : elapsedTime >= slowMs ? 'info' : 'debug'
  if (!log.isLevelEnabled(level)) return
  log[level](
    {
      request_id: request.id,
      method: request.method,
      route: routeOf(request),
      status: statusCode,
      ms: Math.round(elapsedTime * 10) / 10,
      ...(request.call?.audience === 'vendor' && {
        account_id: request.call.accountId,
        actor: request.call.actorId,
      }),
    },
    'answered',
  )
}

// The pattern of the route, because a path has ids and can contain anything.
function routeOf(request: FastifyRequest): string {
  return request.routeOptions.config.route?.path ?? request.routeOptions.url ?? 'unknown'
}
