import { ignoredText, trimmedText } from '@licensing/csv/key-file'
import { useEffect, useId, useRef, type ReactNode } from 'react'
import { useApplication } from '../../api/applications.ts'
import { useSession } from '../../api/session.ts'
import { Box, Actions, Page, Section } from '../../parts/page.tsx'
import { Button } from '../../parts/button.tsx'
import { Progress } from '../../parts/progress.tsx'
import { useWork } from '../../parts/work.ts'
import { begin, chooseFile, importWorkId, useImportRun } from './import-run.ts'
import styles from './import.module.css'
import type { BadRow, ImportResult } from '../../api/import-licences.ts'
import type { PagedList } from '../../api/paged-list.ts'
import { Facts } from '../../parts/facts.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { count, None, sentence } from '../../parts/text.tsx'

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
            hint="UTF-8 or UTF-16, any length. The first line names the columns, in any order. These columns can be added: expires_on, updates_until, max_activations, metadata.NAME. A date without a time is the end of that day, UTC. Other columns are ignored."
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

const ROWS_A_PAGE = 50

interface OutcomeProps {
  began: 'check' | 'import'
  result: ImportResult
}

/** The results of the import or dry run: counts, and each failed row with the reason. */
export function Outcome({ began, result }: OutcomeProps) {
  const { total, created, existing, failed, bad, trimmed, ignored } = result
  const isCheck = began === 'check'
  const page = usePages('bad', badRows(bad))
  return (
    <Section title={isCheck ? 'Result of the check' : 'Result of the import'}>
      <Facts
        narrow
        of={{
          'Rows in the file': count(total),
          [isCheck ? 'To be created' : 'Created']: count(created),
          'Already imported': count(existing),
          'Invalid rows': count(failed),
        }}
      />
      {ignored.length > 0 && <p>{sentence(ignoredText(ignored))}</p>}
      {trimmed.length > 0 && <p>{sentence(trimmedText(trimmed))}</p>}
      <PagedTable
        label="Invalid rows"
        columns={[
          { name: 'Line', cell: ({ line }) => count(line) },
          {
            name: 'Legacy key',
            cell: ({ legacyKey }) => (legacyKey === '' ? <None /> : <code>{legacyKey}</code>),
          },
          { name: 'Reason', cell: ({ reason }) => reason },
        ]}
        page={page}
        idOf={({ line }) => String(line)}
        empty="There are no invalid rows."
      />
    </Section>
  )
}

function badRows(bad: readonly BadRow[]): PagedList<BadRow> {
  return {
    key: ['bad-rows', bad.length, bad[0]?.line ?? 0],
    load: async ({ cursor }) => {
      const from = Number(cursor ?? 0)
      const to = from + ROWS_A_PAGE
      return { data: bad.slice(from, to), next_cursor: to < bad.length ? String(to) : null }
    },
  }
}

interface FileFieldProps {
  label: string
  hint: ReactNode
  /** The value of the input's `accept` attribute, such as ".csv". */
  accept: string
  file: File | null
  onChoose: (file: File) => void
}

/** A field for one file, chosen in a dialog or dropped on the field. When the user returns to the page, it still shows the file. */
export function FileField({ label, hint, accept, file, onChoose }: FileFieldProps) {
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (!input.current || !file || input.current.files?.[0] === file) return
    const chosen = new DataTransfer()
    chosen.items.add(file)
    input.current.files = chosen.files
  }, [file])
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      <input
        ref={input}
        id={id}
        type="file"
        accept={accept}
        aria-describedby={`${id}-hint`}
        className={styles.input}
        onChange={({ target }) => {
          const [chosen] = target.files ?? []
          if (chosen) onChoose(chosen)
        }}
      />
      <div id={`${id}-hint`} className={styles.hint}>
        {hint}
      </div>
    </div>
  )
}
