import { LicensingApiError, newIdempotencyKey } from '@licensing/sdk/backend'
import { useMutation } from '@tanstack/react-query'
import { createContext, use, useRef, useState, type FormEvent, type ReactNode, useEffect } from 'react'
import { announce } from './announce.tsx'
import { Button } from './button.tsx'
import { keepDraft, useDraft } from './draft.ts'
import styles from './form.module.css'
import { Problem } from './problem.tsx'

/** The error of each field, by the name of the field. */
const FieldProblems = createContext<ReadonlyMap<string, string>>(new Map())

export function useFieldProblem(name: string): string | undefined {
  return use(FieldProblems).get(name)
}

interface FormProps {
  /** The name of the submit button. */
  submit: string
  /** Sends the values. If the same values are sent again, the idempotency key is the same. */
  run: (values: Values, idempotencyKey: string) => Promise<unknown>
  /** Maps the pointer of an error to the name of the field, if the names differ. */
  fieldOf?: (pointer: string) => string | undefined
  /** Further buttons beside the submit button. */
  actions?: ReactNode
  /** Disables the submit button. */
  disabled?: boolean
  kind?: 'primary' | 'danger'
  /** The values are not saved as a draft. */
  isSecret?: boolean
  children: ReactNode
}

/**
 * A form. Its fields have the names of the request's fields, such as `restrictions/max_seats`. If the request fails, the form
 * keeps the input, shows each error at its field, and has a button to try again.
 */
export function Form({
  submit,
  run,
  fieldOf,
  actions,
  disabled = false,
  kind = 'primary',
  isSecret = false,
  children,
}: FormProps) {
  const form = useRef<HTMLFormElement>(null)
  const attempt = useRef({ content: '', key: '' })
  const [missing, setMissing] = useState<ReadonlyMap<string, string>>(new Map())
  const [refused, setRefused] = useState<FieldRefusals>(noRefusals)
  const sending = useMutation({
    mutationFn: ({ values, key }: Sending) => run(values, key),
    onMutate: () => setRefused(noRefusals),
    onError: (error, { values }) => {
      setRefused(atFields(error, form.current, fieldOf))
      const isSignedOut = error instanceof LicensingApiError && error.status === 401
      if (isSignedOut && !isSecret) keepDraft(submit, values.entries)
    },
  })

  useDraft(form, submit)

  const send = (event?: FormEvent) => {
    event?.preventDefault()
    if (!form.current || disabled || sending.isPending) return
    const found = missingIn(form.current)
    setMissing(found)
    const [first] = found.keys()
    if (first !== undefined) {
      sending.reset()
      focusField(form.current, first)
      return
    }
    const values = valuesOf(form.current)
    const content = JSON.stringify(values.entries)
    if (attempt.current.content !== content) attempt.current = { content, key: newIdempotencyKey() }
    sending.mutate(
      { values, key: attempt.current.key },
      {
        onSuccess: () => {
          attempt.current = { content: '', key: '' }
          announce(`${submit}: done`)
        },
      },
    )
  }

  return (
    <FieldProblems value={missing.size > 0 ? missing : refused.problems}>
      <form ref={form} className={styles.form} noValidate onSubmit={send}>
        {children}
        {sending.isError && missing.size === 0 && (
          <Problem error={sending.error} shown={refused.shown} retry={() => send()} />
        )}
        <div className={styles.buttons}>
          {actions}
          <Button type="submit" kind={kind} busy={sending.isPending} disabled={disabled}>
            {submit}
          </Button>
        </div>
      </form>
    </FieldProblems>
  )
}

/** The values of the fields, without spaces around them. */
export interface Values {
  readonly entries: readonly (readonly [name: string, value: string])[]
  /** The text of a field; empty if nothing was entered. */
  text: (name: string) => string
  /** The whole number in a field; null if nothing was entered. Any other text is sent unchanged, and the service refuses it. */
  number: (name: string) => number | null
  /** The checked values of the checkboxes with this name. */
  all: (name: string) => string[]
}

function valuesOf(form: HTMLFormElement): Values {
  const entries = [...new FormData(form)].flatMap(([name, value]) =>
    typeof value === 'string' ? [[name, value.trim()] as const] : [],
  )
  const all = (name: string) => entries.filter(([key]) => key === name).map(([, value]) => value)
  const text = (name: string) => all(name)[0] ?? ''
  return { entries, all, text, number: (name) => numberIn(text(name)) }
}

function numberIn(text: string): number | null {
  if (text === '') return null
  return /^-?\d+$/.test(text) ? Number(text) : (text as unknown as number)
}

interface Sending {
  values: Values
  key: string
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement

function controlsOf(form: HTMLFormElement): Control[] {
  const isControl = (element: Element): element is Control =>
    element instanceof HTMLInputElement ||
    element instanceof HTMLSelectElement ||
    element instanceof HTMLTextAreaElement
  return [...form.elements].filter(isControl)
}

function missingIn(form: HTMLFormElement): Map<string, string> {
  const empty = controlsOf(form).filter(({ required, value }) => required && value.trim() === '')
  return new Map(empty.map(({ name }) => [name, 'This field is required.']))
}

function focusField(form: HTMLFormElement, name: string): void {
  controlsOf(form)
    .find((control) => control.name === name)
    ?.focus()
}

interface FieldRefusals {
  problems: ReadonlyMap<string, string>
  /** The pointers of the errors that are shown at fields. */
  shown: ReadonlySet<string>
}

const noRefusals: FieldRefusals = { problems: new Map(), shown: new Set() }

/** Assigns each error to the field that its pointer names, or to the field of the nearest parent. */
function atFields(
  error: unknown,
  form: HTMLFormElement | null,
  fieldOf: FormProps['fieldOf'],
): FieldRefusals {
  const problems = new Map<string, string>()
  const shown = new Set<string>()
  if (!(error instanceof LicensingApiError) || !form) return { problems, shown }
  const names = new Set(controlsOf(form).map(({ name }) => name))
  for (const { pointer, message } of error.errors) {
    const parts = (fieldOf?.(pointer) ?? pointer.slice(1)).split('/')
    while (parts.length > 0 && !names.has(parts.join('/'))) parts.pop()
    const name = parts.join('/')
    if (name === '') continue
    problems.set(name, message)
    shown.add(pointer)
  }
  return { problems, shown }
}

/** Two fields side by side; on a phone one below the other. */
export function Pair({ children }: { children: ReactNode }) {
  return <div className={styles.pair}>{children}</div>
}

/** The result of a form, in place of the form. It takes the focus from the removed button, so that it is read aloud. */
export function Result({ children }: { children: ReactNode }) {
  const shown = useRef<HTMLParagraphElement>(null)
  useEffect(() => shown.current?.focus(), [])
  return (
    <p ref={shown} tabIndex={-1}>
      {children}
    </p>
  )
}
