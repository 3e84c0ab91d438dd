import type { ServiceClient } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import type { BillingService } from '@licensing/proto/billing'
import { errorCatalogue } from '@licensing/proto/errors'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The gateway's one route that the processor calls: it passes events to billing, and answers as the gateway does. */
export interface WebhookGate extends AsyncDisposable {
  readonly url: string
  /** Status of every answer. */
  readonly answers: number[]
}

export async function startWebhookGate(
  billing: Pick<ServiceClient<typeof BillingService>, 'receiveProcessorEvent'>,
): Promise<WebhookGate> {
  const answers: number[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const signature = request.headers['stripe-signature']?.toString() ?? ''
      billing
        .receiveProcessorEvent({ processor: 'stripe', body: Buffer.concat(parts), signature })
        .then(
          () => 200,
          (error: unknown) => (error instanceof ServiceError ? errorCatalogue[error.code].http : 500),
        )
        .then((status) => {
          answers.push(status)
          response.writeHead(status).end()
        })
        .catch(() => response.destroy())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1/processors/stripe/events`,
    answers,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
