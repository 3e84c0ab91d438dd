import { useQuery } from '@tanstack/react-query'
import { useSession } from '../../api/session.ts'
import { processorQuery } from '../../api/settings.ts'

interface ChargeProps {
  chargeRef: string
  /** The time of the charge. */
  at: string
}

/** The id of a charge, with a link to it in the dashboard of the payment processor. */
export function Charge({ chargeRef, at }: ChargeProps) {
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
