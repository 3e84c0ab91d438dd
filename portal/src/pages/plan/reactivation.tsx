import { useQuery } from '@tanstack/react-query'
import { useApplication } from '../../api/applications.ts'
import { isAnySuspendedByArchive, reactivateAll } from '../../api/reactivation.ts'
import type { Plan } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { Box } from '../../parts/box.tsx'
import { Button } from '../../parts/button.tsx'
import { Actions, Section } from '../../parts/page.tsx'
import { Progress } from '../../parts/progress.tsx'
import { ReadProblem } from '../../parts/reading.tsx'
import { startWork, useWork } from '../../parts/work.ts'

/** After a restore: the licences that the archive suspended, one call each. */
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
