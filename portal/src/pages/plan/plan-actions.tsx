import { useMutation } from '@tanstack/react-query'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { planQuery, type Plan } from '../../api/plans.ts'
import { useAddress } from '../../parts/address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, ReadNow } from '../../parts/dialog.tsx'
import { Actions } from '../../parts/page.tsx'
import { Problem } from '../../parts/problem.tsx'
import { count } from '../../parts/text.tsx'

export function PlanActions({ plan }: { plan: Plan }) {
  const { appId } = useApplication()
  const [, setAddress] = useAddress()
  const path = { app_id: appId, plan_id: plan.id }
  const restoring = useMutation({
    mutationFn: () => api.post('/v1/apps/{app_id}/plans/{plan_id}/restore', { path }),
  })
  return (
    <Actions>
      {restoring.isError && <Problem error={restoring.error} retry={() => restoring.mutate()} />}
      <Button onClick={() => setAddress({ open: 'rename' })}>Rename</Button>
      {plan.status === 'active' ? (
        <ConfirmButton
          action="Archive"
          run={() => api.post('/v1/apps/{app_id}/plans/{plan_id}/archive', { path })}
        >
          <ReadNow query={planQuery(appId, plan.id)}>
            {({ name, active_licences: active }) => (
              <p>
                This suspends{' '}
                <strong>{active === 1 ? '1 active licence' : `${count(active)} active licences`}</strong> on{' '}
                {name}. The plan can no longer be issued or sold.
              </p>
            )}
          </ReadNow>
          <p>
            You can restore the plan, but its licences stay suspended until you reactivate them. To stop
            selling the plan without suspending licences, delete its price instead.
          </p>
        </ConfirmButton>
      ) : (
        <Button kind="primary" busy={restoring.isPending} onClick={() => restoring.mutate()}>
          Restore
        </Button>
      )}
    </Actions>
  )
}
