type ErrorBody = {
  type: 'invalid_request_error' | 'idempotency_error' | 'api_error'
  message: string
  code?: string
  param?: string
}

/** An error with Stripe's status and body. The control API uses the same format. */
export class StripeError extends Error {
  readonly status: number
  readonly body: ErrorBody

  constructor(status: number, body: ErrorBody) {
    super(body.message)
    this.status = status
    this.body = body
  }
}

export function invalidRequest(
  message: string,
  details: { code?: string; param?: string } = {},
): StripeError {
  return new StripeError(400, { type: 'invalid_request_error', message, ...details })
}

export function noSuch(kind: string, id: string): StripeError {
  return new StripeError(404, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    message: `No such ${kind}: '${id}'`,
    param: 'id',
  })
}

/** The error of a control action that is not possible in the present state. */
export function impossible(message: string): StripeError {
  return new StripeError(409, { type: 'invalid_request_error', code: 'simulated_impossible', message })
}

/** Whether a request was refused before its endpoint began to execute. Stripe does not save such errors under an idempotency key. */
export function isValidationError({ status, body }: StripeError): boolean {
  return status < 500 && /^(parameter_|resource_missing|url_)/.test(body.code ?? '')
}
