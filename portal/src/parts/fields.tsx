import { useId, type ComponentProps, type ReactNode } from 'react'
import styles from './form.module.css'
import { useFieldProblem } from './form.tsx'

interface FieldText {
  label: string
  name: string
  /** A text under the field that describes the input. */
  hint?: ReactNode
}

export function TextField({
  label,
  name,
  hint,
  className = '',
  ...rest
}: FieldText & ComponentProps<'input'>) {
  return (
    <Field label={label} name={name} hint={hint}>
      {(aria) => (
        <input
          type="text"
          autoComplete="off"
          spellCheck={false}
          className={`${styles.control} ${className}`}
          {...aria}
          {...rest}
        />
      )}
    </Field>
  )
}

export function TextAreaField({ label, name, hint, ...rest }: FieldText & ComponentProps<'textarea'>) {
  return (
    <Field label={label} name={name} hint={hint}>
      {(aria) => <textarea rows={2} spellCheck={false} className={styles.control} {...aria} {...rest} />}
    </Field>
  )
}

/** A native select, because keyboards and phones handle it well. */
export function SelectField({ label, name, hint, ...rest }: FieldText & ComponentProps<'select'>) {
  return (
    <Field label={label} name={name} hint={hint}>
      {(aria) => <select className={styles.control} {...aria} {...rest} />}
    </Field>
  )
}

export function CheckboxField({ label, ...rest }: { label: string } & ComponentProps<'input'>) {
  return (
    <label className={styles.checkbox}>
      <input type="checkbox" {...rest} />
      <span>{label}</span>
    </label>
  )
}

interface FieldAria {
  id: string
  name: string
  'aria-describedby': string | undefined
  'aria-invalid': true | undefined
}

interface FieldProps extends FieldText {
  children: (aria: FieldAria) => ReactNode
}

/** A label, a control, its hint and its error. */
function Field({ label, name, hint, children }: FieldProps) {
  const id = useId()
  const problem = useFieldProblem(name)
  const hintId = `${id}-hint`
  const problemId = `${id}-problem`
  const described = [hint ? hintId : '', problem ? problemId : ''].filter(Boolean).join(' ')
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        name,
        'aria-describedby': described === '' ? undefined : described,
        'aria-invalid': problem ? true : undefined,
      })}
      {hint && (
        <div id={hintId} className={styles.hint}>
          {hint}
        </div>
      )}
      {problem && (
        <div id={problemId} className={styles.problem}>
          {problem}
        </div>
      )}
    </div>
  )
}
