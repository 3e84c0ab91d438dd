import styles from './waiting.module.css'

/** Stands for a text that is on its way, as high as a line of it: nothing moves when it comes. */
export function Waiting({ length }: { length: 'short' | 'long' }) {
  return (
    <span className={`${styles.waiting} ${styles[length]}`} aria-hidden="true">
      {'\u00a0'}
    </span>
  )
}
