import { Agent as HttpAgent } from 'node:http'
import { Agent } from 'node:https'
import { Stripe } from 'stripe'

export interface StripeSettings {
  /** Stripe’s own when undefined. */
  apiBase: string | undefined
  secretKey: string | undefined
  /** The platform's at Connect; without it nobody can consent. */
  clientId: string | undefined
  /** Where browsers reach the consent page; beside `apiBase`, or Stripe’s own, when undefined. */
  connectBase: string | undefined
  /** None is never a reason to take an event unverified. */
  webhookSecrets: string[]
}

/** Whether a key moves real money. */
export function isLiveKey(secretKey: string | undefined): boolean {
  return secretKey !== undefined && /^(sk|rk)_live_/.test(secretKey)
}

// What is asked beyond these waits: a processor that answers slowly takes no more of this process.
const mostConnections = 64

/**
 * The official client, pointed at `apiBase`. It sends no telemetry, and only retries where it is asked to, but for a
 * request whose connection closed: that one the library repeats once.
 *
 * @param once not even that one
 */
export function newStripeClient(
  { apiBase, secretKey }: StripeSettings,
  { once = false } = {},
): Stripe | undefined {
  if (!secretKey) return undefined
  const base = apiBase === undefined ? undefined : new URL(apiBase)
  const connections = { keepAlive: true, maxSockets: mostConnections }
  const agent = base?.protocol === 'http:' ? new HttpAgent(connections) : new Agent(connections)
  return new Stripe(secretKey, {
    httpClient: once
      ? withoutRepeats(Stripe.createNodeHttpClient(agent))
      : Stripe.createNodeHttpClient(agent),
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

// The library recognizes a closed connection by the error's code.
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

const prefix = 'stripe:'

export function merchantOf(connectedAccount: string): string {
  return `${prefix}${connectedAccount}`
}

export function connectedAccountOf(merchant: string): string {
  return merchant.slice(prefix.length)
}
