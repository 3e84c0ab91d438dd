import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { definitionsQuery, planQuery, priceQuery, updatePlan, type Plan } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { Facts } from '../../parts/facts.tsx'
import { MetadataSection } from '../../parts/metadata-section.tsx'
import { Page } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { Status, Time } from '../../parts/text.tsx'
import { ActiveLicences } from './active-licences.tsx'
import { EditPlan, PlanActions, Reactivation } from './plan-actions.tsx'
import { planFacts } from './plan-fields.tsx'
import { PlanPrice } from './plan-price.tsx'
import { PlanValues } from './plan-values.tsx'

export function Route() {
  const { planId = '' } = useParams({ strict: false })
  const { appId } = useApplication()
  const { can } = useSession()
  const isReadable = appId !== '' && (can('admin') || can('read'))
  const plan = useQuery({ ...planQuery(appId, planId), enabled: isReadable })
  const price = useQuery({ ...priceQuery(appId, planId), enabled: appId !== '' && can('admin') })
  const definitions = useQuery({ ...definitionsQuery(appId), enabled: isReadable })
  return (
    <Page
      title={plan.data?.name ?? 'Plan'}
      needs={['admin', 'read']}
      aside={plan.data && can('admin') && <PlanActions plan={plan.data} />}
    >
      <ReadProblem of={[plan, definitions, price]} />
      {plan.data && (
        <>
          <Summary plan={plan.data} />
          {plan.data.status === 'active' && <Reactivation plan={plan.data} />}
          {definitions.data && <PlanValues plan={plan.data} definitions={definitions.data} />}
          {price.data !== undefined && <PlanPrice appId={appId} plan={plan.data} price={price.data} />}
          <MetadataSection
            entries={plan.data.metadata}
            save={can('admin') ? (metadata) => updatePlan(appId, planId, { metadata }) : undefined}
          />
          {can('admin') && <EditPlan plan={plan.data} />}
        </>
      )}
      {!plan.data && !plan.isError && <p role="status">Loading…</p>}
    </Page>
  )
}

function Summary({ plan }: { plan: Plan }) {
  return (
    <Facts
      of={{
        Status: <Status of={plan.status} />,
        ...planFacts(plan),
        'Active licences': <ActiveLicences of={plan} />,
        Created: <Time at={plan.created_at} />,
        Id: <code>{plan.id}</code>,
      }}
    />
  )
}
