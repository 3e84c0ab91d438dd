import type { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import type { Logger } from '@licensing/process/log'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AdmissionDependencies } from '../admission/admit.ts'
import { limitKeyOf } from '../admission/client-address.ts'
import { asServiceError } from '../http/problem.ts'
import { pageHeaders } from './html.ts'

/**
 * Answers requests for a page on which a person confirms something, without an API key. `work` returns the page; if it
 * throws, `refusal` returns a page with the error.
 */
export function answers(
  { throttle }: AdmissionDependencies,
  log: Logger,
  refusal: (error: ServiceError) => string,
) {
  return async (request: FastifyRequest, reply: FastifyReply, work: () => Promise<string>) => {
    try {
      throttle.unauthenticated(reply, limitKeyOf(request.ip))
      return await reply.headers(pageHeaders).send(await work())
    } catch (thrown) {
      const error = asServiceError(thrown)
      if (error.code === 'internal') log.error({ err: thrown, request_id: request.id }, 'request failed')
      return reply.code(statusOf(error)).headers(pageHeaders).send(refusal(error))
    }
  }
}

/** 400 for every error of the caller, since the reader of a page does not need different statuses. */
export function statusOf({ code }: ServiceError): number {
  const { http } = errorCatalogue[code]
  return http < 500 && code !== 'rate_limited' ? 400 : http
}

/** Makes a sentence of an error text, which begins in lower case. An id at its beginning stays as it is. */
export function sentence(text: string): string {
  const first = /^[a-z]+_/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(first) ? first : `${first}.`
}

export function textsOf(query: unknown): Record<string, string | undefined> {
  const texts = Object.entries(Object(query) as object).filter(([, value]) => typeof value === 'string')
  return Object.fromEntries(texts) as Record<string, string>
}

export function formOf({ body }: FastifyRequest): URLSearchParams {
  return new URLSearchParams(Buffer.isBuffer(body) ? body.toString('utf8') : '')
}
