import type { Metadata, Price } from './wire.ts'

/** What a checkout session was asked to do on payment, and does not show. Has the session's id. */
export type CheckoutPlan = {
  id: string
  created: number
  /** Prices as they were when the session opened. */
  lines: { lineId: string; price: Price; quantity: number }[]
  metadata: Metadata
  description: string | null
  applicationFeeAmount: number | null
  applicationFeePercent: number | null
}
