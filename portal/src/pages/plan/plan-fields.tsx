import { Fragment, type ReactNode } from 'react'
import type { PlanFields } from '../../api/plans.ts'
import { TextField } from '../../parts/fields.tsx'
import type { Values } from '../../parts/form.tsx'
import { None } from '../../parts/text.tsx'

/** The fields of a plan on its page and in the dialog. Metadata has a section of its own. */
type Fields = Omit<PlanFields, 'metadata'>

interface Field<Value> {
  input: (value: Value) => ReactNode
  read: (values: Values) => Value
  /** The value on the page, by its name there. */
  facts: (value: Value) => Readonly<Record<string, ReactNode>>
}

const fields: { [Name in keyof Fields]: Field<Fields[Name]> } = {
  name: {
    input: (name) => <TextField label="Name" name="name" required defaultValue={name} />,
    read: (values) => values.text('name'),
    // The title of the page.
    facts: () => ({}),
  },
  code: {
    input: (code) => (
      <TextField
        label="Code"
        name="code"
        required
        maxLength={64}
        defaultValue={code}
        hint="Your files, imports and products may use the current code."
      />
    ),
    read: (values) => values.text('code'),
    facts: (code) => ({ Code: <code>{code}</code> }),
  },
  trial_days: {
    input: (days) => (
      <TextField
        label="Days of a trial"
        name="trial_days"
        inputMode="numeric"
        defaultValue={days ?? ''}
        hint="Your product starts a trial with the plan’s code, 1 to 366 days long. Empty: no trials. Trials that are running keep their end."
      />
    ),
    read: (values) => values.number('trial_days'),
    facts: (days) => ({ Trials: days === null ? <None>none</None> : days === 1 ? '1 day' : `${days} days` }),
  },
}

const names = Object.keys(fields) as (keyof Fields)[]
const fieldOf = (name: keyof Fields) => fields[name] as Field<unknown>

export function PlanInputs({ of }: { of: Fields }) {
  return names.map((name) => <Fragment key={name}>{fieldOf(name).input(of[name])}</Fragment>)
}

/** The fields that a form changes. */
export function changedFields(before: Fields, values: Values): Partial<Fields> {
  const given = names.map((name) => [name, fieldOf(name).read(values)] as const)
  return Object.fromEntries(given.filter(([name, value]) => value !== before[name]))
}

export function planFacts(plan: Fields): Readonly<Record<string, ReactNode>> {
  return Object.assign({}, ...names.map((name) => fieldOf(name).facts(plan[name]))) as ReturnType<
    typeof planFacts
  >
}
