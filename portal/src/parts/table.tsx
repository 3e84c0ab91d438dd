import { useEffect, useRef, useState, type ReactNode, type RefObject } from 'react'
import { Button } from './button.tsx'
import type { Pager, ShownPage } from './pages.ts'
import { Problem } from './problem.tsx'
import styles from './table.module.css'

export interface Column<Row> {
  name: string
  cell: (row: Row) => ReactNode
  /** For figures and buttons. */
  align?: 'end'
  /** Long texts, as an address: they are broken where they do not fit. */
  wrap?: boolean
  /** Its heading is for those who listen: a column of buttons. */
  quiet?: boolean
}

interface TableProps<Row> {
  /** The table's name. */
  label: string
  columns: readonly Column<Row>[]
  rows: readonly Row[] | undefined
  idOf: (row: Row) => string
  /** What stands there without rows: what to do first. */
  empty: ReactNode
  isMoving?: boolean
  children?: ReactNode
}

/** A table; on a phone each row is a card. Without rows it is there with a sentence. */
export function Table<Row>({ label, columns, rows, idOf, empty, isMoving, children }: TableProps<Row>) {
  const [scroller, isScrolled] = useScroller()
  return (
    <div className={styles.box}>
      {/* Some browsers take a table laid out as cards for none: the roles stand here. */}
      <div ref={scroller} className={styles.scroll} {...(isScrolled && { tabIndex: 0 })}>
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
      {rows === undefined && <p className={styles.sentence}>Loading…</p>}
      {rows?.length === 0 && <div className={styles.sentence}>{empty}</div>}
      {children}
    </div>
  )
}

type PagedTableProps<Row> = Omit<TableProps<Row>, 'rows' | 'isMoving' | 'children'> & {
  page: ShownPage<Row>
}

/** A table of a list that goes page by page. */
export function PagedTable<Row>({ page, ...table }: PagedTableProps<Row>) {
  return (
    <>
      {page.error !== null && <Problem error={page.error} retry={page.retry} />}
      {(page.error === null || page.rows !== undefined) && (
        <Table {...table} rows={page.rows} isMoving={page.isMoving}>
          <PagerButtons {...page.pager} isMoving={page.isMoving} />
        </Table>
      )}
    </>
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

/** What scrolls sideways has to be reached by keyboard. */
function useScroller(): [RefObject<HTMLDivElement | null>, boolean] {
  const ref = useRef<HTMLDivElement>(null)
  const [isScrolled, setScrolled] = useState(false)
  useEffect(() => {
    const box = ref.current
    if (!box) return
    const observer = new ResizeObserver(() => setScrolled(box.scrollWidth > box.clientWidth))
    observer.observe(box)
    if (box.firstElementChild) observer.observe(box.firstElementChild)
    return () => observer.disconnect()
  }, [])
  return [ref, isScrolled]
}
