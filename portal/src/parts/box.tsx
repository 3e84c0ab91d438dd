import type { ReactNode } from 'react'
import styles from './box.module.css'

/** A framed part of a page, for what is no table: texts, forms, buttons. */
export function Box({ children }: { children: ReactNode }) {
  return <div className={styles.box}>{children}</div>
}
