import type { Schemas } from '@licensing/sdk/backend'
import { useQuery } from '@tanstack/react-query'
import { useSession } from '../../api/session.ts'
import { processorQuery } from '../../api/settings.ts'

interface ChargeProps {
  chargeRef: string
  /** The time of the charge. */
  at: string
}

/** What a payment is known by: its charge or, in another shop, its sale and renewal. */
export function PaymentCharge({ payment }: { payment: Schemas['Payment'] }) {
  const { id, sale_id: sale, charge_ref: ref, occurred_at: at } = payment
  if (sale === null) return ref === null ? <code>{id}</code> : <Charge chargeRef={ref} at={at} />
  return (
    <>
      <code>{sale}</code>
      {ref !== null && (
        <>
          , renewal <code>{ref}</code>
        </>
      )}
    </>
  )
}

/**
 * The id of a charge, with a link to it in the dashboard of the payment processor. The charge of a refund may be the sale or the
 * renewal of another shop, which has no page there.
 */
export function Charge(charge: ChargeProps) {
  const isAtProcessor = /^(ch|py|pi)_/.test(charge.chargeRef)
  return isAtProcessor ? <LinkedCharge {...charge} /> : <code>{charge.chargeRef}</code>
}

function LinkedCharge({ chargeRef, at }: ChargeProps) {
  const { own, can } = useSession()
  const { data: processor } = useQuery({
    ...processorQuery,
    enabled: can('admin') && own.app_id === null,
    staleTime: 60_000,
  })
  // An older charge may belong to an account that was replaced. Its link names no account, so the dashboard searches the account that is open.
  const isOfAccount = processor && processor.connected_at <= at
  const account = isOfAccount ? `${processor.connected_account}/${processor.livemode ? '' : 'test/'}` : ''
  return (
    <a
      href={`https://dashboard.stripe.com/${account}payments/${encodeURIComponent(chargeRef)}`}
      target="_blank"
      rel="noreferrer"
    >
      <code>{chargeRef}</code>
      <span aria-hidden="true"> ↗</span>
      <span className="visually-hidden"> at Stripe</span>
    </a>
  )
}
