import type { ServiceClient } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import type { BillingService } from '@licensing/proto/billing'
import { errorCatalogue } from '@licensing/proto/errors'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Starts the gateway's one route that the processor calls: it passes events to billing, and answers as the gateway does. */
export async function startWebhookGate(
  billing: Pick<ServiceClient<typeof BillingService>, 'receiveProcessorEvent'>,
): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = createServer((request, response) => {
    const signature = request.headers['stripe-signature']?.toString() ?? ''
    const receive = async () => {
      const body = Buffer.concat(await request.toArray())
      await billing.receiveProcessorEvent({ processor: 'stripe', body, signature })
    }
    receive().then(
      () => response.writeHead(200).end(),
      (error: unknown) =>
        response.writeHead(error instanceof ServiceError ? errorCatalogue[error.code].http : 500).end(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/v1/processors/stripe/events`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
