import { trace } from '@opentelemetry/api'
import { pino } from 'pino'
import type { Logger, LoggerOptions } from 'pino'
import { requestContext } from './context.ts'

export type { Logger } from 'pino'

// Values with these names are removed from every line, in case they are logged by mistake.
const secretPaths = ['key', 'secret', 'token', 'authorization', 'password', 'licence_key', 'licenceKey']

/**
 * JSON lines on standard output. Each line carries the request id, the account and the trace of the request that
 * caused it.
 *
 * @param service name of the process
 * @param level lowest level logged
 * @param file receives the lines instead of standard output
 */
export function createLogger(service: string, level = 'info', file?: string): Logger {
  const options: LoggerOptions = {
    level,
    base: { service },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: secretPaths.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
    mixin() {
      const context = requestContext()
      const span = trace.getActiveSpan()?.spanContext()
      return {
        ...(context && { request_id: context.requestId }),
        ...(context?.accountId && { account_id: context.accountId }),
        ...(span && { trace_id: span.traceId }),
      }
    },
  }
  return file === undefined ? pino(options) : pino(options, pino.destination(file))
}
