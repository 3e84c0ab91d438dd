import { useId, useState, type ReactNode } from 'react'
import { useAddress } from '../address.ts'
import { Button } from './button.tsx'
import styles from './filters.module.css'

/** A row of filters above a table. */
export function Filters({ children }: { children: ReactNode }) {
  return <div className={styles.filters}>{children}</div>
}

interface FilterProps {
  label: string
  /** The filter's parameter in the address. */
  name: string
  /** The lists that return to their first page when the filter changes. */
  list: string | readonly string[]
}

/** The value of a filter, kept in the address. */
function useFilter({ name, list }: Pick<FilterProps, 'name' | 'list'>) {
  const [address, setAddress] = useAddress()
  const first = Object.fromEntries([list].flat().map((page) => [page, undefined]))
  return [address[name] ?? '', (value: string) => setAddress({ [name]: value, ...first })] as const
}

interface ChoiceFilterProps extends FilterProps {
  options: readonly (readonly [value: string, text: string])[]
}

export function Filter({ label, name, list, options }: ChoiceFilterProps) {
  const [chosen, choose] = useFilter({ name, list })
  const id = useId()
  return (
    <div className={styles.filter}>
      <label htmlFor={id}>{label}</label>
      <select id={id} value={chosen} onChange={({ target }) => choose(target.value)}>
        <option value="">All</option>
        {chosen !== '' && !options.some(([value]) => value === chosen) && (
          <option value={chosen}>{chosen}</option>
        )}
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  )
}

/** A day, as `2031-03-31`. */
export function DayFilter({ label, name, list }: FilterProps) {
  const [day, choose] = useFilter({ name, list })
  const id = useId()
  return (
    <div className={styles.filter}>
      <label htmlFor={id}>{label}</label>
      <input id={id} type="date" value={day} onChange={({ target }) => choose(target.value)} />
    </div>
  )
}

/** A text that is used when Enter is pressed or the field loses the focus. */
export function TextFilter({ label, name, list, placeholder }: FilterProps & { placeholder: string }) {
  const [text, choose] = useFilter({ name, list })
  const [{ of, typed }, setTyped] = useState({ of: text, typed: text })
  const id = useId()
  // The browser's back and forward buttons change the value too.
  if (of !== text) setTyped({ of: text, typed: text })
  const send = () => {
    if (typed.trim() !== text) choose(typed.trim())
  }
  return (
    <form
      className={styles.filter}
      onSubmit={(event) => {
        event.preventDefault()
        send()
      }}
    >
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="text"
        placeholder={placeholder}
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={({ target }) => setTyped({ of: text, typed: target.value })}
        onBlur={send}
      />
    </form>
  )
}

interface PairFilterProps {
  label: string
  /** The parameters in the address are `name[NAME]`. */
  name: string
  list: string
  max: number
}

const named = (name: string, of: string) => `${name}[${of}]`

/** The pairs of a `PairFilter` that are in an address, in their order. */
export function pairsIn(
  address: Readonly<Record<string, string>>,
  name: string,
): [name: string, value: string][] {
  return Object.entries(address).flatMap(([parameter, value]) =>
    parameter.startsWith(`${name}[`) && parameter.endsWith(']')
      ? [[parameter.slice(name.length + 1, -1), value]]
      : [],
  )
}

/** Names with their values, added one by one as `name=value`. */
export function PairFilter({ label, name, list, max }: PairFilterProps) {
  const [address, setAddress] = useAddress()
  const [typed, setTyped] = useState('')
  const [isWrong, setWrong] = useState(false)
  const id = useId()
  const pairs = pairsIn(address, name)
  const add = () => {
    const [, of, value] = /^([^=]+)=(.+)$/.exec(typed.trim()) ?? []
    setWrong(typed.trim() !== '' && of === undefined)
    if (of === undefined || value === undefined) return
    setTyped('')
    setAddress({ [named(name, of.trim())]: value.trim(), [list]: undefined })
  }
  return (
    <form
      className={styles.filter}
      onSubmit={(event) => {
        event.preventDefault()
        add()
      }}
    >
      {pairs.length < max && (
        <>
          <label htmlFor={id}>{label}</label>
          <input
            id={id}
            type="text"
            placeholder="name=value"
            autoComplete="off"
            spellCheck={false}
            value={typed}
            aria-invalid={isWrong || undefined}
            aria-describedby={isWrong ? `${id}-problem` : undefined}
            onChange={({ target }) => setTyped(target.value)}
            onBlur={add}
          />
        </>
      )}
      {isWrong && (
        <span id={`${id}-problem`} className={styles.problem}>
          Write it as name=value.
        </span>
      )}
      {pairs.map(([of, value]) => (
        <Button
          key={of}
          kind="quiet"
          className={styles.pair}
          onClick={() => setAddress({ [named(name, of)]: undefined, [list]: undefined })}
        >
          <code>
            {of}={value}
          </code>
          <span aria-hidden="true">✕</span>
          <span className="visually-hidden">: remove this filter</span>
        </Button>
      ))}
    </form>
  )
}
