import { Fragment, type ReactNode } from 'react'
import type { GivenFields, Licence } from '../../api/licences.ts'
import { TextAreaField, TextField } from '../../parts/fields.tsx'
import { Pair, type Values } from '../../parts/form.tsx'
import { count, None, Time } from '../../parts/text.tsx'

type Restrictions = NonNullable<Licence['restrictions']>
type Limit = Exclude<keyof Restrictions, 'domains'>
/** The fields of the dialogs that issue and edit a licence. Metadata has a section of its own. */
type Fields = Omit<GivenFields, 'metadata'>

interface Field<Value> {
  /** Null: each dialog has its own. */
  inputs: ((value: Value | null) => ReactNode) | null
  /** `before`: the value when the dialog opened. */
  read: (values: Values, before: Value | null) => Value
  /** The value on the page of a licence, by its name there. */
  facts: (value: Value) => Readonly<Record<string, ReactNode>>
}

const limitText = (limit: number | undefined) =>
  limit === undefined ? <None>any number</None> : count(limit)

const fields: { [Name in keyof Fields]: Field<Fields[Name]> } = {
  external_ref: { inputs: null, read: (values) => values.text('external_ref'), facts: () => ({}) },
  expires_on: {
    inputs: (end) => (
      <TextField
        label="Expires on"
        name="expires_on"
        type="date"
        defaultValue={end?.slice(0, 10)}
        hint="At the end of that day, UTC. Empty: never."
      />
    ),
    read: (values, before) => endOfDay(values.text('expires_on'), before),
    facts: (end) => ({ 'Expires on': <Time at={end} none="never" /> }),
  },
  updates_until: {
    inputs: (until) => (
      <TextField
        label="Updates until"
        name="updates_until"
        type="date"
        defaultValue={until?.slice(0, 10)}
        hint="Releases until the end of that day are included. Empty: all releases."
      />
    ),
    read: (values, before) => endOfDay(values.text('updates_until'), before),
    facts: (until) => ({ 'Updates until': <Time at={until} none="all releases" /> }),
  },
  restrictions: {
    inputs: (restrictions) => <RestrictionFields of={restrictions} />,
    read: readRestrictions,
    facts: (restrictions) => ({
      'Maximum activations': limitText(restrictions?.max_activations),
      ...(restrictions?.max_concurrent !== undefined && {
        'Slots at once': `${count(restrictions.max_concurrent)}, held for ${count(restrictions.lease_minutes ?? DEFAULT_LEASE_MINUTES)} minutes`,
      }),
      Seats: limitText(restrictions?.max_seats),
      Domains: restrictions?.domains?.join(', ') ?? <None>any</None>,
    }),
  },
}

const DEFAULT_LEASE_MINUTES = 15

const names = Object.keys(fields) as (keyof Fields)[]
const fieldOf = (name: keyof Fields) => fields[name] as Field<unknown>

/** The fields of both the dialog that issues a licence and the one that edits it. */
export function TermFields({ of }: { of?: Fields }) {
  const inputs = (name: keyof Fields) => (
    <Fragment key={name}>{fieldOf(name).inputs?.(of?.[name] ?? null)}</Fragment>
  )
  return (
    <>
      <Pair>
        {inputs('expires_on')}
        {inputs('updates_until')}
      </Pair>
      {names.filter((name) => name !== 'expires_on' && name !== 'updates_until').map(inputs)}
    </>
  )
}

/** The fields in a form. */
export function readFields(values: Values, before?: Fields): Fields {
  const read = names.map((name) => [name, fieldOf(name).read(values, before?.[name] ?? null)])
  return Object.fromEntries(read) as Fields
}

/** The fields that a form changes. */
export function changedFields(before: Fields, values: Values): Partial<Fields> {
  const after = Object.entries(readFields(values, before))
  return Object.fromEntries(after.filter(([name, value]) => !isSame(value, before[name as keyof Fields])))
}

/** Whether two values are the same in JSON, in whatever order their names are. */
function isSame(one: unknown, other: unknown): boolean {
  const inOrder = (value: unknown) =>
    JSON.stringify(
      typeof value === 'object' && value !== null
        ? Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
        : value,
    )
  return inOrder(one) === inOrder(other)
}

/** The fields on the page of a licence. */
export function factsOf(licence: Fields): Readonly<Record<string, ReactNode>> {
  return Object.assign({}, ...names.map((name) => fieldOf(name).facts(licence[name]))) as ReturnType<
    typeof factsOf
  >
}

function RestrictionFields({ of: restrictions }: { of: Restrictions | null }) {
  return (
    <>
      <Pair>
        <TextField
          label="Maximum activations"
          name="restrictions/max_activations"
          inputMode="numeric"
          defaultValue={restrictions?.max_activations}
          hint="Machines. Empty: no maximum."
        />
        <TextField
          label="Seats"
          name="restrictions/max_seats"
          inputMode="numeric"
          defaultValue={restrictions?.max_seats}
          hint="Enforced by the product."
        />
      </Pair>
      <TextAreaField
        label="Domains"
        name="restrictions/domains"
        defaultValue={restrictions?.domains?.join('\n')}
        hint="Host names on which the product may run, separated by spaces or lines. *.example.com allows all subdomains. Empty: any host."
      />
      <Pair>
        <TextField
          label="Slots at once"
          name="restrictions/max_concurrent"
          inputMode="numeric"
          defaultValue={restrictions?.max_concurrent}
          hint="Makes the licence floating: so many machines can use it at the same time. Empty: not floating."
        />
        <TextField
          label="Lease in minutes"
          name="restrictions/lease_minutes"
          inputMode="numeric"
          defaultValue={restrictions?.lease_minutes}
          hint="How long a machine holds its place after it last called. Empty: 15, if the licence is floating."
        />
      </Pair>
    </>
  )
}

const limits = Object.keys({
  max_activations: true,
  max_concurrent: true,
  lease_minutes: true,
  max_seats: true,
} satisfies Record<Limit, true>) as Limit[]

/** Null if nothing is restricted. */
function readRestrictions(values: Values): Restrictions | null {
  const domains = values
    .text('restrictions/domains')
    .split(/[\s,;]+/)
    .filter((domain) => domain !== '')
  const restrictions: Restrictions = domains.length > 0 ? { domains } : {}
  for (const limit of limits) {
    const number = values.number(`restrictions/${limit}`)
    if (number !== null) restrictions[limit] = number
  }
  return Object.keys(restrictions).length === 0 ? null : restrictions
}

/** The end of the day as a timestamp. If the day is the same as in `before`, it returns `before`, so that the time of day stays. */
export function endOfDay(day: string, before: string | null = null): string | null {
  if (day === '') return null
  return before?.slice(0, 10) === day ? before : `${day}T23:59:59.999Z`
}
