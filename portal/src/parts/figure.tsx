import { useId, useState, type PointerEvent, type ReactNode } from 'react'
import { Button } from './button.tsx'
import styles from './figure.module.css'
import { Table } from './table.tsx'
import { count, day, Waiting } from './text.tsx'

export interface Series {
  name: string
  values: readonly number[]
  /** How a value is written; as a count unless given. */
  write?: (value: number) => string
}

/** Whether its numbers are here. */
export type FigureState = 'known' | 'loading' | 'failed'

interface FigureProps {
  title: string
  /** Until they are, it has the size that it will have then. */
  state: FigureState
  /** The one number to remember, and what it is. */
  figure: ReactNode
  note: string
  /** The start of each step. */
  at: readonly string[]
  series: readonly Series[]
  /** Only in the table: what does not go on the same scale. */
  more?: readonly Series[]
  kind: 'bars' | 'line'
}

/** A figure over time: a plot, and the same as a table. */
export function Figure({ title, state, figure, note, at, series, more = [], kind }: FigureProps) {
  const id = useId()
  const [isTable, setTable] = useState(false)
  const [pointed, setPointed] = useState<number | null>(null)
  const write = ({ write = count }: Series, i: number, { values }: Series) => write(values[i] ?? 0)
  const rows = at.map((_, i) => at.length - 1 - i)
  return (
    <section className={styles.box} aria-labelledby={id}>
      <figure aria-labelledby={id} aria-busy={state === 'loading'} className={styles.figure}>
        <div className={styles.head}>
          <h2 id={id}>{title}</h2>
          <Button kind="quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            Show as table
          </Button>
        </div>
        {state === 'loading' && <span className="visually-hidden">Loading…</span>}
        <p className={styles.total}>
          {state === 'loading' ? <Waiting length="short" /> : state === 'known' ? figure : '–'}
        </p>
        <p className={styles.note}>
          {state === 'loading' ? <Waiting length="long" /> : state === 'known' ? note : 'no data'}
        </p>
        {isTable ? (
          <div className={styles.table}>
            <Table
              label={title}
              columns={[
                { name: 'Day', cell: (i: number) => day(at[i]!) },
                ...[...series, ...more].map((one) => ({
                  name: one.name,
                  align: 'end' as const,
                  cell: (i: number) => write(one, i, one),
                })),
              ]}
              rows={state === 'loading' ? undefined : rows}
              idOf={(i) => at[i]!}
              empty="There are no days."
            />
          </div>
        ) : (
          <>
            <Plot title={title} at={at} series={series} kind={kind} onPoint={setPointed} />
            <p className={styles.readout} aria-hidden="true">
              {pointed === null ? (
                <>
                  {/* A line that holds nothing yet is as high as one. */}
                  <span>{at[0] ? day(at[0]) : '\u00a0'}</span>
                  <span>{at.at(-1) && day(at.at(-1)!)}</span>
                </>
              ) : (
                <>
                  <span>{day(at[pointed]!)}</span>
                  <span>{series.map((one) => `${write(one, pointed, one)} ${one.name}`).join(' · ')}</span>
                </>
              )}
            </p>
          </>
        )}
      </figure>
    </section>
  )
}

interface PlotProps extends Pick<FigureProps, 'title' | 'at' | 'series' | 'kind'> {
  onPoint: (step: number | null) => void
}

const HEIGHT = 100

/** Drawn in steps by HEIGHT, and stretched to where it stands. */
function Plot({ title, at, series, kind, onPoint }: PlotProps) {
  const steps = Math.max(1, at.length)
  const most = Math.max(0, ...series.flatMap(({ values }) => values))
  const top = Math.max(1, most)
  const y = (value: number) => HEIGHT - (value / top) * (HEIGHT - 2)
  const [pointed, setPointed] = useState<number | null>(null)
  const point = (step: number | null) => {
    setPointed(at.length === 0 ? null : step)
    onPoint(at.length === 0 ? null : step)
  }
  const follow = ({ clientX, currentTarget }: PointerEvent<SVGSVGElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect()
    point(Math.min(steps - 1, Math.max(0, Math.floor(((clientX - left) / width) * steps))))
  }
  return (
    <div className={styles.plot}>
      <span className={styles.top} aria-hidden="true">
        {most > 0 && (series[0]?.write ?? count)(most)}
      </span>
      <svg
        role="img"
        aria-label={`${title} by day, as a plot`}
        viewBox={`0 0 ${steps} ${HEIGHT}`}
        preserveAspectRatio="none"
        onPointerMove={follow}
        onPointerLeave={() => point(null)}
      >
        {pointed !== null && <rect className={styles.pointed} x={pointed} y={0} width={1} height={HEIGHT} />}
        {series.map(({ name, values }, nth) =>
          kind === 'bars' ? (
            <g key={name} className={styles[`series${nth}`]}>
              {values.map((value, i) => (
                <rect
                  key={at[i]}
                  x={i + 0.12 + (0.76 / series.length) * nth}
                  width={0.76 / series.length}
                  y={y(value)}
                  height={HEIGHT - y(value)}
                />
              ))}
            </g>
          ) : (
            <g key={name} className={styles[`series${nth}`]}>
              <path
                className={styles.area}
                d={`M0 ${HEIGHT}${values.map((value, i) => `L${i} ${y(value)}H${i + 1}`).join('')}V${HEIGHT}Z`}
              />
              <path
                className={styles.line}
                d={values.map((value, i) => `${i === 0 ? 'M' : 'L'}${i} ${y(value)}H${i + 1}`).join('')}
              />
            </g>
          ),
        )}
      </svg>
    </div>
  )
}
