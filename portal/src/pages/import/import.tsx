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
          An import looks up plans by their code: beside the scope issue, the key needs read or admin. Sign in
          with such a key, or ask the person who made this one.
        </p>
      </Box>
    )
  }
  return (
    <>
      <Section title="Licences of another system">
        <Box>
          <p>
            Customers keep what they have: a licence is made for each old key, and a product exchanges the old
            key for the new one by itself. An old key that was imported before is left as it is, so that a
            file can be sent again at any time.
          </p>
          <FileField
            label="CSV file"
            accept=".csv,.txt,text/csv,text/plain"
            file={run?.file ?? null}
            onChoose={(file) => chooseFile(appId, file)}
            hint="UTF-8, of any length. The first line names the columns, in any order; further ones are not read."
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
            <p>Check first: it writes nothing, and says of each row what would come of it.</p>
          )}
          {work && run?.began && <Progress work={work} retry={() => begin(appId, run.began!)} />}
        </Box>
      </Section>
      {run?.began && run.result && <Outcome began={run.began} result={run.result} />}
    </>
  )
}
