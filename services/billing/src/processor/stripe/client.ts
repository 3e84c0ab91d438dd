import { Agent as HttpAgent } from 'node:http'
import { Agent } from 'node:https'
import { Stripe } from 'stripe'

export interface StripeSettings {
  /** Stripe’s own if undefined. */
  apiBase: string | undefined
  secretKey: string | undefined
  /** The platform's id at Stripe Connect. Without it no consent page can be opened. */
  clientId: string | undefined
  /** The address of the consent page for browsers. If undefined, it is on `apiBase` or Stripe’s own. */
  connectBase: string | undefined
  /** If no webhook secret is configured, every event is refused. */
  webhookSecrets: string[]
}

/** Whether a key moves real money. */
export function isLiveKey(secretKey: string | undefined): boolean {
  return secretKey !== undefined && /^(sk|rk)_live_/.test(secretKey)
}

// The most concurrent requests; others wait, so that a slow processor does not use up this process's resources.
const maxConnections = 64

/**
 * The official client for `apiBase`, without telemetry. It retries only if a call asks for it. The library still
 * repeats a request once if its connection was closed.
 *
 * @param once prevents that repetition
 */
export function newStripeClient(
  { apiBase, secretKey }: StripeSettings,
  { once = false } = {},
): Stripe | undefined {
  if (!secretKey) return undefined
  const base = apiBase === undefined ? undefined : new URL(apiBase)
  const connections = { keepAlive: true, maxSockets: maxConnections }
  const agent = base?.protocol === 'http:' ? new HttpAgent(connections) : new Agent(connections)
  const httpClient = readingOnlyStripe(Stripe.createNodeHttpClient(agent))
  return new Stripe(secretKey, {
    httpClient: once ? withoutRepeats(httpClient) : httpClient,
    telemetry: false,
    maxNetworkRetries: 0,
    timeout: 10_000,
    ...(base && {
      host: base.hostname,
      protocol: base.protocol === 'http:' ? 'http' : 'https',
      port: base.port || (base.protocol === 'http:' ? 80 : 443),
    }),
  })
}

type HttpClient = ReturnType<typeof Stripe.createNodeHttpClient>

// The library recognizes a closed connection by the code of the error.
function withoutRepeats(client: HttpClient): HttpClient {
  return {
    getClientName: () => client.getClientName(),
    async makeRequest(...request) {
      try {
        return await client.makeRequest(...request)
      } catch (error) {
        throw new Error('the payment processor gave no answer', { cause: error })
      }
    },
  }
}

/** The code of the error that stands for an answer which is not Stripe's. */
export const notStripe = 'not_stripe'

/**
 * Turns an answer that is not Stripe's into an error: a page of a server in front of Stripe, or JSON without an error
 * although the status is one. The library loses the status of the first and takes the second for the object. A literal, such
 * as a text, ends the process.
 */
function readingOnlyStripe(client: HttpClient): HttpClient {
  return {
    getClientName: () => client.getClientName(),
    async makeRequest(...request) {
      const response = await client.makeRequest(...request)
      const readJson = response.toJSON.bind(response)
      response.toJSON = async () => {
        const body: unknown = await readJson().catch((error: unknown) => {
          if (error instanceof SyntaxError) return undefined
          throw error
        })
        const isObject = typeof body === 'object' && body !== null && !Array.isArray(body)
        if (isObject && (response.getStatusCode() < 400 || Object(body).error)) return body
        return { error: { type: 'api_error', code: notStripe, message: '' } }
      }
      return response
    },
  }
}

const prefix = 'stripe:'

export function merchantOf(connectedAccount: string): string {
  return `${prefix}${connectedAccount}`
}

export function connectedAccountOf(merchant: string): string {
  return merchant.slice(prefix.length)
}
