import { context, propagation, SpanStatusCode, trace } from '@opentelemetry/api'
import type { Context, Span, SpanOptions } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'

let recordsSpans = false

/** Whether a collector is configured. If not, no spans are created, and only the trace context of callers is passed on. */
export const isTracing = (): boolean => recordsSpans

/**
 * Starts tracing. The trace context of a caller is always passed on, so that a request is one trace through REST, gRPC, NATS
 * and webhook. Spans are recorded only if a collector is configured.
 *
 * @param endpoint OTLP/HTTP base URL, such as http://collector:4318
 */
export async function startTelemetry(
  service: string,
  endpoint: string | undefined,
): Promise<{ stop(): Promise<void> }> {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  if (!endpoint) return { stop: () => Promise.resolve() }
  // Loaded only if it is used, because its 180 modules take a third of a service's start time.
  const { exportSpans } = await import('./span-export.ts')
  recordsSpans = true
  return exportSpans(service, endpoint)
}

/** Headers (`traceparent`) that carry the active trace to another process. */
export function traceHeaders(from: Context = context.active()): Record<string, string> {
  const carrier: Record<string, string> = {}
  propagation.inject(from, carrier)
  return carrier
}

/** The trace context in the `traceparent` headers of another process. */
export function contextFrom(headers: Record<string, string | undefined>): Context {
  return propagation.extract(context.active(), headers)
}

/** Runs `work`, in a span if spans are recorded. If it rejects, the span is marked as failed. */
export async function inSpan<T>(
  name: string,
  options: SpanOptions,
  parent: Context,
  work: (span?: Span) => Promise<T>,
): Promise<T> {
  if (!recordsSpans) return parent === context.active() ? work() : context.with(parent, () => work())
  return trace.getTracer('licensing').startActiveSpan(name, options, parent, async (span) => {
    try {
      return await work(span)
    } catch (error) {
      span.setStatus({
        code: SpanStatusCode.ERROR,
        message: error instanceof Error ? error.message : String(error),
      })
      throw error
    } finally {
      span.end()
    }
  })
}
