import { useEffect, useRef, useState } from 'react'
import { Button } from './button.tsx'
import { useFieldProblem, type Values } from './form.tsx'
import form from './form.module.css'
import styles from './metadata.module.css'
import { refusedField } from './refused.ts'
import { Table } from './table.tsx'

export type Metadata = Readonly<Record<string, string>>

interface Row {
  id: number
  name: string
  value: string
}

/** Fields for the vendor's metadata in a form: a name and a value per entry. */
export function MetadataFields({ entries = {} }: { entries?: Metadata }) {
  const [rows, setRows] = useState<readonly Row[]>(() =>
    inOrder(entries).map(([name, value], id) => ({ id, name, value })),
  )
  const change = (id: number, to: Partial<Row>) =>
    setRows(rows.map((row) => (row.id === id ? { ...row, ...to } : row)))
  const next = 1 + Math.max(-1, ...rows.map(({ id }) => id))
  return (
    <fieldset className={styles.fields}>
      <legend>Metadata</legend>
      {rows.map((row, at) => (
        <EntryFields
          key={row.id}
          row={row}
          place={at + 1}
          isNew={row.id === next - 1 && row.name === ''}
          onChange={(to) => change(row.id, to)}
          onRemove={() => setRows(rows.filter(({ id }) => id !== row.id))}
        />
      ))}
      <div>
        <Button kind="quiet" onClick={() => setRows([...rows, { id: next, name: '', value: '' }])}>
          Add metadata
        </Button>
      </div>
      <p className={form.hint}>
        Your own names and values, such as crm_id and A-1044. Products never see them.
      </p>
    </fieldset>
  )
}

interface EntryFieldsProps {
  row: Row
  /** The position of the entry, counted from 1. */
  place: number
  /** The entry was just added; its field gets the focus. */
  isNew: boolean
  onChange: (to: Partial<Row>) => void
  onRemove: () => void
}

/** The value's field has the name that the service uses for the entry in errors. */
function EntryFields({ row: { name, value }, place, isNew, onChange, onRemove }: EntryFieldsProps) {
  const nameField = useRef<HTMLInputElement>(null)
  const takesFocus = useRef(isNew)
  useEffect(() => {
    if (takesFocus.current) nameField.current?.focus()
  }, [])
  const field = fieldOf(name)
  const problem = useFieldProblem(field)
  const described =
    problem === undefined ? {} : { 'aria-describedby': `${field} problem`, 'aria-invalid': true }
  return (
    <div className={styles.entry}>
      <input
        type="text"
        aria-label={`Metadata name ${place}`}
        placeholder="name"
        autoComplete="off"
        spellCheck={false}
        className={form.control}
        ref={nameField}
        value={name}
        onChange={({ target }) => onChange({ name: target.value })}
        {...described}
      />
      <input
        type="text"
        name={name.trim() === '' && value.trim() === '' ? undefined : field}
        aria-label={`Metadata value ${place}`}
        placeholder="value"
        autoComplete="off"
        spellCheck={false}
        className={form.control}
        value={value}
        onChange={({ target }) => onChange({ value: target.value })}
        {...described}
      />
      <Button kind="quiet" isDestructive onClick={onRemove}>
        Remove<span className="visually-hidden"> metadata {place}</span>
      </Button>
      {problem !== undefined && (
        <p id={`${field} problem`} className={`${form.problem} ${styles.problem}`}>
          {problem}
        </p>
      )}
    </div>
  )
}

const prefix = 'metadata/'

/** The JSON pointer of an entry, as the name of its field. */
function fieldOf(name: string): string {
  return prefix + name.trim().replaceAll('~', '~0').replaceAll('/', '~1')
}

/** Reads the entries of the form. @throws LicensingApiError at the field if a name was entered twice */
export function readMetadata({ entries }: Values): Metadata {
  const entered = entries.filter(([field]) => field.startsWith(prefix))
  for (const [at, [field]] of entered.entries()) {
    if (entered.findIndex(([other]) => other === field) === at) continue
    throw refusedField(`/${field}`, 'This name is there twice.')
  }
  return Object.fromEntries(
    entered.map(([field, value]) => [
      field.slice(prefix.length).replaceAll('~1', '/').replaceAll('~0', '~'),
      value,
    ]),
  )
}

/** The metadata for a PATCH; undefined if nothing changed. Blanks around a value do not count as a change. */
export function changeOfMetadata(
  before: Metadata,
  after: Metadata,
): Record<string, string | null> | undefined {
  const set = Object.entries(after).filter(([name, value]) => before[name]?.trim() !== value)
  const removed = Object.keys(before).filter((name) => after[name] === undefined)
  if (set.length === 0 && removed.length === 0) return undefined
  return Object.fromEntries([...set, ...removed.map((name) => [name, null] as const)])
}

export function MetadataTable({ entries, empty }: { entries: Metadata; empty: string }) {
  return (
    <Table
      label="Metadata"
      columns={[
        { name: 'Name', cell: ([name]) => <code>{name}</code> },
        { name: 'Value', wrap: true, cell: ([, value]) => value },
      ]}
      rows={inOrder(entries)}
      idOf={([name]) => name}
      empty={empty}
    />
  )
}

function inOrder(entries: Metadata): [name: string, value: string][] {
  return Object.entries(entries).toSorted(([a], [b]) => (a < b ? -1 : 1))
}
