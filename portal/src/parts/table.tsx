import type { ReactNode } from 'react'
import { Button } from './button.tsx'
import type { Pager, ShownPage } from './pages.ts'
import { ReadProblem, freshnessOf, type Reading, type Freshness } from './problem.tsx'
import styles from './table.module.css'

export interface Column<Row> {
  name: string
  cell: (row: Row) => ReactNode
  /** For figures and buttons. */
  align?: 'end'
  /** Breaks long texts, such as a URL, into lines. */
  wrap?: boolean
  /** Hides the heading from all but screen readers, for a column of buttons. */
  quiet?: boolean
}

interface TableProps<Row> {
  /** The table's name. */
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[] | undefined
  idOf: (row: Row) => string
  /** The text if there are no rows. It says what to do first. */
  empty: ReactNode
  freshness?: Freshness
  isMoving?: boolean
  children?: ReactNode
}

/** A table. On a phone each row is a card. If there are no rows, a sentence is shown below the heading. */
export function Table<Row>({
  label,
  columns,
  rows,
  idOf,
  empty,
  freshness = 'current',
  isMoving,
  children,
}: TableProps<Row>) {
  return (
    <div className={styles.box}>
      {/* The arrow keys scroll a table that has the focus. Every table can have it, because the width of the window changes. */}
      <div className={styles.scroll} tabIndex={0}>
        {/* Some browsers do not treat a table as a table when its rows are cards, so the roles are set explicitly. */}
        <table role="table" aria-label={label} aria-busy={isMoving || undefined} className={styles.table}>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map(({ name, align, quiet }) => (
                <th key={name} role="columnheader" scope="col" className={align && styles.end}>
                  {quiet ? <span className="visually-hidden">{name}</span> : name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {rows?.map((row) => (
              <tr role="row" key={idOf(row)}>
                {columns.map(({ name, cell, align, wrap, quiet }) => (
                  <td
                    key={name}
                    role="cell"
                    className={wrap ? styles.wrap : align && styles.end}
                    {...(!quiet && { 'data-name': name })}
                  >
                    {cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows === undefined && (
        <p className={styles.sentence}>
          {freshness === 'unread' ? 'The rows could not be read.' : 'Loading…'}
        </p>
      )}
      {rows?.length === 0 && (
        <div className={styles.sentence}>{freshness === 'old' ? 'There were no rows then.' : empty}</div>
      )}
      {children}
    </div>
  )
}

type ReadTableProps<Row> = Omit<TableProps<Row>, 'freshness'> & {
  /** The query of the rows. */
  of: Reading
}

/** A table of a list that is read repeatedly. It says when the rows are not current. */
export function ReadTable<Row>({ of, ...table }: ReadTableProps<Row>) {
  return (
    <>
      <ReadProblem of={of} />
      <Table {...table} freshness={freshnessOf(of)} />
    </>
  )
}

type PagedTableProps<Row> = Omit<ReadTableProps<Row>, 'of' | 'rows' | 'isMoving' | 'children'> & {
  page: ShownPage<Row>
}

/** A table of a list with pages. */
export function PagedTable<Row>({ page: { of, rows, isMoving, pager }, ...table }: PagedTableProps<Row>) {
  return (
    <ReadTable {...table} of={of} rows={rows} isMoving={isMoving}>
      <PagerButtons {...pager} isMoving={isMoving} />
    </ReadTable>
  )
}

function PagerButtons({ previous, next, isMoving }: Pager & { isMoving: boolean }) {
  if (!previous && !next && !isMoving) return null
  return (
    <div className={styles.pager}>
      <Button disabled={!previous} onClick={() => previous?.()}>
        Previous page
      </Button>
      <Button disabled={!next} onClick={() => next?.()}>
        Next page
      </Button>
    </div>
  )
}
