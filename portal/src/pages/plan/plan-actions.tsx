import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { planQuery, updatePlan, type Plan } from '../../api/plans.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, ReadNow, Dialog } from '../../parts/dialog.tsx'
import { Actions, Section, Box } from '../../parts/page.tsx'
import { Problem, ReadProblem } from '../../parts/problem.tsx'
import { count } from '../../parts/text.tsx'
import { Form } from '../../parts/form.tsx'
import { isAnySuspendedByArchive, reactivateAll } from '../../api/reactivation.ts'
import { useSession } from '../../api/session.ts'
import { Progress } from '../../parts/progress.tsx'
import { startWork, useWork } from '../../parts/work.ts'
import { changedFields, PlanInputs } from './plan-fields.tsx'

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
      <Button onClick={() => setAddress({ open: 'edit' })}>Edit</Button>
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

export function EditPlan({ plan }: { plan: Plan }) {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="Edit plan" open={open === 'edit'} onClose={close}>
      <EditForm plan={plan} onDone={close} />
    </Dialog>
  )
}

function EditForm({ plan, onDone }: { plan: Plan; onDone: () => void }) {
  const { appId } = useApplication()
  // The plan when the dialog opened. Unchanged fields are not sent, because somebody else may change them meanwhile.
  const [before] = useState(plan)
  return (
    <Form
      submit="Save"
      run={async (values) => {
        await updatePlan(appId, before.id, changedFields(before, values))
        onDone()
      }}
    >
      <PlanInputs of={before} />
    </Form>
  )
}

/** After a plan was restored: reactivates the licences that its archiving suspended, with one call each. */
export function Reactivation({ plan }: { plan: Plan }) {
  const { appId } = useApplication()
  const { can } = useSession()
  const id = `reactivate ${plan.id}`
  const work = useWork().get(id)
  const suspended = useQuery({
    queryKey: ['suspended-by-archive', plan.id],
    queryFn: ({ signal }) => isAnySuspendedByArchive(appId, plan.id, signal),
    enabled: can('read') && can('revoke') && work?.state !== 'running',
  })
  const { data: isAny, isError } = suspended
  if (!can('read') || !can('revoke') || (!isAny && !isError && !work)) return null
  const start = () =>
    startWork(
      { id, title: `Reactivating licences of ${plan.name}`, address: `/plans/${plan.id}`, total: 0 },
      (report, signal) => reactivateAll(appId, plan.id, report, signal),
    )
  return (
    <Section title="Suspended licences">
      <ReadProblem of={suspended} />
      {work && <Progress work={work} retry={start} />}
      {isAny && work?.state !== 'running' && (
        <Box>
          <p>
            The archive suspended licences of this plan. They stay suspended until you reactivate them.
            Licences that were suspended for another reason are not affected.
          </p>
          <Actions>
            <Button kind="primary" onClick={start}>
              Reactivate suspended licences
            </Button>
          </Actions>
        </Box>
      )}
    </Section>
  )
}
