import { useApplication } from '../../api/applications.ts'
import { licencesAsCsv } from '../../api/export-licences.ts'
import { Button } from '../../parts/button.tsx'
import { Progress } from '../../parts/progress.tsx'
import { startWork, useWork } from '../../parts/work.ts'
import { useLicenceFilters } from './licence-filters.tsx'

const idOf = (appId: string) => `export ${appId}`

/** A button that saves the filtered list as a file. */
export function ExportLicences({ planName }: { planName: (planId: string) => string }) {
  const start = useExport(planName)
  const { appId } = useApplication()
  const work = useWork().get(idOf(appId))
  return (
    <Button disabled={appId === ''} busy={work?.state === 'running'} onClick={start}>
      Export CSV
    </Button>
  )
}

export function ExportProgress({ planName }: { planName: (planId: string) => string }) {
  const start = useExport(planName)
  const { appId } = useApplication()
  const work = useWork().get(idOf(appId))
  return work && <Progress work={work} retry={start} />
}

function useExport(planName: (planId: string) => string): () => void {
  const { appId } = useApplication()
  const { filters } = useLicenceFilters()
  return () =>
    startWork(
      { id: idOf(appId), title: 'Exporting licences', address: '/licences', total: null },
      async (report, signal) => {
        const file = await licencesAsCsv({ appId, filters, planName }, (done) => report({ done }), signal)
        save(file, `licences-${new Date().toISOString().slice(0, 10)}.csv`)
      },
    )
}

function save(file: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  // After a minute the browser has certainly read the file.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}
