import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useEffect } from 'react'
import { licenceQuery, type LicenceDetail } from '../../api/licences.ts'
import { plansQuery } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../parts/address.ts'
import { Copy } from '../../parts/copy.tsx'
import { Facts } from '../../parts/facts.tsx'
import { Page } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { None, Status, Time, words } from '../../parts/text.tsx'
import { Activations, RecentCalls } from './activations.tsx'
import { Deliveries, History, Payments } from './history.tsx'
import { Entitlements } from './entitlements.tsx'
import { LicenceActions } from './licence-actions.tsx'

export function Route() {
  const { licenceId = '' } = useParams({ strict: false })
  const { can } = useSession()
  const licence = useQuery({ ...licenceQuery(licenceId), enabled: can('read') })
  const { data, error } = licence
  useItsApplication(data)
  return (
    <Page
      title={data?.external_ref ?? 'Licence'}
      needs={['read']}
      aside={data && <LicenceActions licence={data} />}
    >
      <ReadProblem of={licence} />
      {data && <Licence licence={data} />}
      {!data && !error && <p role="status">Loading…</p>}
    </Page>
  )
}

function Licence({ licence }: { licence: LicenceDetail }) {
  return (
    <>
      <Summary licence={licence} />
      <Entitlements licence={licence} />
      <Activations licence={licence} />
      <RecentCalls licence={licence} />
      <History licence={licence} />
      <Payments licence={licence} />
      <Deliveries licence={licence} />
    </>
  )
}

function Summary({ licence }: { licence: LicenceDetail }) {
  const { status, status_reason: reason, plan_id: planId, restrictions, expires_on: expiresOn } = licence
  const { data: plans } = useQuery(plansQuery(licence.application_id))
  const plan = plans?.find(({ id }) => id === planId)
  return (
    <>
      <Copy name="Copy key" text={licence.key} />
      <Facts
        of={{
          Status: (
            <>
              <Status of={status} /> {reason && <None>{words(reason)}</None>}
            </>
          ),
          Plan: (
            <Link to="/plans/$planId" params={{ planId }}>
              {plan?.name ?? planId}
            </Link>
          ),
          'Expires on': <Time at={expiresOn} none="never" />,
          'Maximum activations': restrictions?.max_activations ?? <None>any number</None>,
          Seats: restrictions?.max_seats ?? <None>any number</None>,
          Domains: restrictions?.domains?.join(', ') ?? <None>any</None>,
          Created: <Time at={licence.created_at} />,
          'Legacy key': licence.legacy_key ? <code>{licence.legacy_key}</code> : <None>none</None>,
          Id: <code>{licence.id}</code>,
        }}
      />
    </>
  )
}

/** A link to a licence may come from elsewhere, with another application or none. */
function useItsApplication(licence: LicenceDetail | undefined): void {
  const [{ app }, setAddress] = useAddress()
  const wanted = licence?.application_id
  useEffect(() => {
    if (wanted !== undefined && app !== wanted) setAddress({ app: wanted }, { replace: true })
  })
}
