import { useQuery } from '@tanstack/react-query'
import { useAddress } from '../../address.ts'
import { actorsQuery, auditedOperations, auditLog, type AuditLogEntry } from '../../api/audit-log.ts'
import { useSession } from '../../api/session.ts'
import { Filter, Filters } from '../../parts/filters.tsx'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { None, Time, words } from '../../parts/text.tsx'
import { changedValues } from '../licence/changes.ts'
import styles from './settings.module.css'

const list = 'log'

/** Actors that are not a key or a person. */
const others: readonly (readonly [actor: string, name: string])[] = [
  ['operator', 'the operator'],
  ['processor', 'the payment processor'],
  ['mail', 'the link in a mail'],
  ['notifier', 'the service'],
]

export function AuditLog() {
  const { own } = useSession()
  const [{ who, what }] = useAddress()
  const page = usePages(list, auditLog({ actor: who, operation: what }))
  const names = useQuery({ ...actorsQuery, enabled: own.app_id === null })
  return (
    <Section title="Audit log">
      <Filters>
        <Filter label="Who" name="who" list={list} options={[...(names.data ?? []), ...others]} />
        <Filter
          label="What"
          name="what"
          list={list}
          options={auditedOperations.map((operation) => [operation, inWords(operation)])}
        />
      </Filters>
      <PagedTable
        label="Audit log"
        columns={[
          { name: 'When', cell: ({ at }) => <Time at={at} to="second" /> },
          { name: 'Who', wrap: true, cell: (entry) => <Who of={entry} /> },
          { name: 'What', cell: ({ operation }) => inWords(operation) },
          { name: 'Resource', wrap: true, cell: ({ resource_id: id }) => <code>{id}</code> },
          { name: 'Change', wrap: true, cell: ({ changes }) => <Changed changes={changes} /> },
        ]}
        page={page}
        idOf={({ id }) => id}
        empty={who || what ? 'No change matches these filters.' : 'Nothing was changed yet.'}
      />
    </Section>
  )
}

function Who({ of: { actor, actor_name: name } }: { of: AuditLogEntry }) {
  const shown = name ?? others.find(([other]) => other === actor)?.[1] ?? actor
  return <span title={actor}>{shown}</span>
}

function Changed({ changes }: { changes: AuditLogEntry['changes'] }) {
  const values = changedValues(changes).map(({ name, from, to }) => `${name}: ${from} → ${to}`)
  const secrets = Object.entries(changes).filter(([, { from, to }]) => from === null && to === null)
  const lines = [...values, ...secrets.map(([name]) => `${words(name)}: new`)]
  if (lines.length === 0) return <None />
  return (
    <ul role="list" className={styles.changes}>
      {lines.map((line) => (
        <li key={line}>{line}</li>
      ))}
    </ul>
  )
}

/** `Create api key` of `createApiKey`, `Set quota` of the operator's `set-quota`. */
function inWords(operation: string): string {
  const text = operation.replaceAll(/[A-Z]/g, ' $&').replaceAll('-', ' ').toLowerCase()
  return text.charAt(0).toUpperCase() + text.slice(1)
}
