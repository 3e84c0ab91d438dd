import type { ReactNode } from 'react'
import styles from './facts.module.css'

interface FactsProps {
  of: Readonly<Record<string, ReactNode>>
  /** Puts more values in a line, if they are short. */
  narrow?: boolean
}

/** Names with their values, side by side. */
export function Facts({ of, narrow = false }: FactsProps) {
  return (
    <dl className={`${styles.facts} ${narrow ? styles.narrow : ''}`}>
      {Object.entries(of).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}
