import { createHmac } from 'node:crypto'

export type Signed = {
  secret: string
  body: Buffer
  /** When the attempt is made; each has its own, so that a late retry is not taken for a replayed request. */
  unixSeconds: number
}

/** Interface 5.3: HMAC-SHA256 over `<t>.<raw body>`, keyed with the whole secret as UTF-8, its prefix included. */
export function signature({ secret, body, unixSeconds }: Signed): string {
  const mac = createHmac('sha256', secret).update(`${unixSeconds}.`).update(body).digest('hex')
  return `t=${unixSeconds},v1=${mac}`
}

/** The headers of one attempt, names and values in turn. */
export function deliveryHeaders({
  eventId,
  attempt,
  ...signed
}: Signed & { eventId: string; attempt: number }): string[] {
  return [
    'Content-Type',
    'application/json',
    'User-Agent',
    'Licensing-Webhooks/1.0',
    'Webhook-Id',
    eventId,
    'Webhook-Attempt',
    String(attempt),
    'Webhook-Signature',
    signature(signed),
  ]
}
