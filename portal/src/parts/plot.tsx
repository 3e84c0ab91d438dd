import type { PointerEvent, ReactNode } from 'react'
import styles from './figure.module.css'
import { scaleOf } from './scale.ts'
import { count } from './text.tsx'

export type Tone = 'first' | 'second' | 'bad'

export interface Series {
  name: string
  values: readonly number[]
  /** Default: `first`. */
  tone?: Tone
  /** Formats a value; by default as a count. */
  write?: (value: number) => string
}

export interface PlotProps {
  title: string
  /** The start of each step. */
  at: readonly string[]
  series: readonly Series[]
  /** `parts`: bars on top of each other, because each series is a part of the previous series. */
  kind: 'bars' | 'parts' | 'line'
  pointed: number | null
  onPoint: (step: number | null) => void
  /** The line below the plot. */
  children: ReactNode
}

const HEIGHT = 100

/** A step is one unit wide, and the drawing is HEIGHT units high. The browser stretches it to its container. */
export function Plot({ title, at, series, kind, pointed, onPoint, children }: PlotProps) {
  const steps = Math.max(1, at.length)
  const marks = scaleOf(series.flatMap(({ values }) => values))
  const [top, bottom] = [marks[0]!, marks.at(-1)!]
  const write = series[0]?.write ?? count
  const bars = kind === 'bars' ? series.length : 1
  const y = (value: number) => HEIGHT - ((value - bottom) / (top - bottom)) * HEIGHT
  const follow = ({ clientX, currentTarget }: PointerEvent<SVGSVGElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect()
    const step = Math.min(steps - 1, Math.max(0, Math.floor(((clientX - left) / width) * steps)))
    onPoint(at.length === 0 ? null : step)
  }
  return (
    <div className={styles.plot}>
      <div className={styles.marks} aria-hidden="true">
        {marks.map((mark) => (
          <span key={mark}>{at.length > 0 && write(mark)}</span>
        ))}
      </div>
      <svg
        role="img"
        aria-label={`${title} by day, as a plot`}
        viewBox={`0 0 ${steps} ${HEIGHT}`}
        preserveAspectRatio="none"
        onPointerMove={follow}
        onPointerLeave={() => onPoint(null)}
      >
        {pointed !== null && <rect className={styles.pointed} x={pointed} y={0} width={1} height={HEIGHT} />}
        {marks.map((mark) => (
          <path key={mark} className={mark === 0 ? styles.zero : styles.mark} d={`M0 ${y(mark)}H${steps}`} />
        ))}
        {series.map(({ name, values, tone = 'first' }, nth) =>
          kind !== 'line' ? (
            <g key={name} className={styles[tone]}>
              {values.map((value, i) => (
                <rect
                  key={at[i]}
                  x={i + 0.12 + (0.76 / bars) * (nth % bars)}
                  width={0.76 / bars}
                  y={Math.min(y(value), y(0))}
                  height={Math.abs(y(0) - y(value))}
                />
              ))}
            </g>
          ) : (
            <g key={name} className={styles[tone]}>
              <path
                className={styles.area}
                d={`M0 ${y(0)}${values.map((value, i) => `L${i} ${y(value)}H${i + 1}`).join('')}V${y(0)}Z`}
              />
              <path
                className={styles.line}
                d={values.map((value, i) => `${i === 0 ? 'M' : 'L'}${i} ${y(value)}H${i + 1}`).join('')}
              />
            </g>
          ),
        )}
      </svg>
      <p className={styles.readout} aria-hidden="true">
        {children}
      </p>
    </div>
  )
}
