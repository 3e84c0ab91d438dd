import { Stripe } from 'stripe'

export interface StripeSettings {
  /** Stripe’s own when undefined. */
  apiBase: string | undefined
  secretKey: string | undefined
  /** None is never a reason to take an event unverified. */
  webhookSecrets: string[]
}

/** Whether a key moves real money. */
export function isLiveKey(secretKey: string | undefined): boolean {
  return secretKey !== undefined && /^(sk|rk)_live_/.test(secretKey)
}

/** The official client, pointed at `apiBase`. It sends no telemetry, and only retries where it is told to. */
export function newStripeClient({ apiBase, secretKey }: StripeSettings): Stripe | undefined {
  if (!secretKey) return undefined
  const base = apiBase === undefined ? undefined : new URL(apiBase)
  return new Stripe(secretKey, {
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

const prefix = 'stripe:'

export function merchantOf(connectedAccount: string): string {
  return `${prefix}${connectedAccount}`
}

export function connectedAccountOf(merchant: string): string {
  return merchant.slice(prefix.length)
}
