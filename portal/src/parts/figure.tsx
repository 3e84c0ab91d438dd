import { useId, useState, type ReactNode } from 'react'
import { Button } from './button.tsx'
import styles from './figure.module.css'
import { Plot, type PlotProps, type Series, type Tone } from './plot.tsx'
import { Outdated, type Reading } from './problem.tsx'
import { Table } from './table.tsx'
import { count, day, Waiting } from './text.tsx'

interface FigureProps extends Pick<PlotProps, 'title' | 'at' | 'series' | 'kind'> {
  /** The query of the numbers. Until they are read, the figure is a placeholder of the same size. */
  of: Reading
  /** The main numbers, shown above the plot. */
  figure: ReactNode
  note: ReactNode
  /** Controls beside the title that choose the series. */
  actions?: ReactNode
  /** Series that are only in the table, because they have another scale. */
  more?: readonly Series[]
}

/** Numbers over time, as a plot and as a table. */
export function Figure({ title, of, figure, note, actions, at, series, more = [], kind }: FigureProps) {
  const id = useId()
  const [isTable, setTable] = useState(false)
  const [pointed, setPointed] = useState<number | null>(null)
  const write = ({ write = count, values }: Series, i: number) => write(values[i] ?? 0)
  const rows = at.map((_, i) => at.length - 1 - i)
  const isKnown = of.data !== undefined
  const isLoading = !isKnown && of.error === null
  return (
    <section className={styles.box} aria-labelledby={id}>
      <figure aria-labelledby={id} aria-busy={isLoading} className={styles.figure}>
        <div className={styles.head}>
          <h2 id={id}>{title}</h2>
          <div className={styles.actions}>
            {actions}
            <Button kind="quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
              Show as table
            </Button>
          </div>
        </div>
        {isLoading && <span className="visually-hidden">Loading…</span>}
        <div className={styles.total}>{isLoading ? <Waiting length="short" /> : isKnown ? figure : '–'}</div>
        <p className={styles.note}>
          {isLoading ? <Waiting length="long" /> : isKnown ? note : 'no data'}
          <Outdated of={of} />
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
                  cell: (i: number) => write(one, i),
                })),
              ]}
              rows={isLoading ? undefined : rows}
              idOf={(i) => at[i]!}
              empty="There are no days."
            />
          </div>
        ) : (
          <Plot title={title} at={at} series={series} kind={kind} pointed={pointed} onPoint={setPointed}>
            {pointed !== null && at[pointed] !== undefined ? (
              <>
                <span>{day(at[pointed])}</span>
                <span>{series.map((one) => `${write(one, pointed)} ${one.name}`).join(' · ')}</span>
              </>
            ) : (
              // While there are no days, a space keeps the height of the line.
              daysOf(at).map((text) => <span key={text}>{text}</span>)
            )}
          </Plot>
        )}
      </figure>
    </section>
  )
}

interface TotalProps {
  value: ReactNode
  name: string
  tone: Tone
}

/** A number of a figure with the name and the colour of its series. */
export function Total({ value, name, tone }: TotalProps) {
  return (
    <span>
      {value} <small className={styles[tone]}>{name}</small>
    </span>
  )
}

/** The first, the middle and the last day, for below a plot. */
function daysOf(at: readonly string[]): string[] {
  if (at.length === 0) return ['\u00a0']
  const steps = [0, Math.floor((at.length - 1) / 2), at.length - 1]
  return [...new Set(steps)].map((step) => day(at[step]!))
}
