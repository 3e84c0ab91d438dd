import styles from './meter.module.css'

interface MeterProps {
  name: string
  value: number
  /** Zero: there is no limit. */
  most: number
  /** The same in words. */
  text: string
}

/** How much of a limit is used; from nine tenths on it looks so. */
export function Meter({ name, value, most, text }: MeterProps) {
  const max = Math.max(most, 1)
  return (
    <meter
      className={styles.meter}
      aria-label={name}
      aria-valuetext={text}
      min={0}
      max={max}
      value={most === 0 ? 0 : Math.max(0, Math.min(value, max))}
      high={max * 0.9}
      low={max * 0.9}
      optimum={0}
    >
      {text}
    </meter>
  )
}
