import { useId, type ReactNode } from 'react'
import { useAddress } from './address.ts'
import styles from './filters.module.css'

/** What narrows a list: a row above its table. */
export function Filters({ children }: { children: ReactNode }) {
  return <div className={styles.filters}>{children}</div>
}

interface FilterProps {
  label: string
  /** Its parameter in the address. */
  name: string
  /** The list whose page it leads back to the first. */
  list: string
  options: readonly (readonly [value: string, text: string])[]
}

/** A filter of a list, kept in the address. */
export function Filter({ label, name, list, options }: FilterProps) {
  const [address, setAddress] = useAddress()
  const id = useId()
  const chosen = address[name] ?? ''
  return (
    <div className={styles.filter}>
      <label htmlFor={id}>{label}</label>
      <select
        id={id}
        value={chosen}
        onChange={(event) => setAddress({ [name]: event.target.value, [list]: undefined })}
      >
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
