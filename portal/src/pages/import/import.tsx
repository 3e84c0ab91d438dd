import { useApplication } from '../../api/applications.ts'
import { useSession } from '../../api/session.ts'
import { Box } from '../../parts/box.tsx'
import { Button } from '../../parts/button.tsx'
import { FileField } from '../../parts/file-field.tsx'
import { Actions, Page, Section } from '../../parts/page.tsx'
import { Progress } from '../../parts/progress.tsx'
import { useWork } from '../../parts/work.ts'
import { begin, chooseFile, importWorkId, useImportRun } from './import-run.ts'
import { Outcome } from './outcome.tsx'
import styles from './import.module.css'

export function Route() {
  return (
    <Page title="Import" needs={['issue']}>
      <Import />
    </Page>
  )
}

function Import() {
  const { can } = useSession()
  const { appId } = useApplication()
  const run = useImportRun(appId)
  const work = useWork().get(importWorkId(appId))
  const isRunning = work?.state === 'running'
  if (!can('read') && !can('admin')) {
    return (
      <Box>
        <p>
          An import looks up plans by their code. Besides issue, the key needs the scope read or admin. Sign
          in with such a key, or ask the person who created this one.
        </p>
      </Box>
    )
  }
  return (
    <>
      <Section title="Licences of another system">
        <Box>
          <p>
            Each row becomes a licence. The installed product exchanges the old key for the new one
            automatically. Old keys that were imported before are not changed, so you can import a file again.
          </p>
          <FileField
            label="CSV file"
            accept=".csv,.txt,text/csv,text/plain"
            file={run?.file ?? null}
            onChoose={(file) => chooseFile(appId, file)}
            hint="UTF-8 or UTF-16, any length. The first line names the columns, in any order. Other columns are ignored."
          />
          <pre className={styles.example}>
            {
              'legacy_key,external_ref,plan_code\nOLD-0001-ABCD,customer-17,pro\nOLD-0002-EFGH,customer-18,team'
            }
          </pre>
          <Actions>
            <Button
              kind={run?.isChecked ? 'plain' : 'primary'}
              disabled={!run || appId === ''}
              busy={isRunning && run?.began === 'check'}
              onClick={() => !isRunning && begin(appId, 'check')}
            >
              Check
            </Button>
            <Button
              kind={run?.isChecked ? 'primary' : 'plain'}
              disabled={!run?.isChecked}
              busy={isRunning && run?.began === 'import'}
              onClick={() => !isRunning && begin(appId, 'import')}
            >
              Import
            </Button>
          </Actions>
          {!run?.isChecked && (
            <p>Check the file first. A check writes nothing and reports the result of each row.</p>
          )}
          {work && run?.began && <Progress work={work} retry={() => begin(appId, run.began!)} />}
        </Box>
      </Section>
      {run?.began && run.result && <Outcome began={run.began} result={run.result} />}
    </>
  )
}
