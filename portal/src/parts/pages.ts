import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useRouterState } from '@tanstack/react-router'
import type { PagedList } from '../api/paged-list.ts'
import { useAddress, type AddressChange } from '../address.ts'
import type { Reading } from './problem.tsx'

/** Functions that open the previous and the next page; null if there is none. */
export interface Pager {
  previous: (() => void) | null
  next: (() => void) | null
}

/** A page of a list, as the table shows it. */
export interface ShownPage<Row> {
  /** Undefined until the first answer. While another page is loaded, the rows of the page before. */
  rows: readonly Row[] | undefined
  of: Reading
  isMoving: boolean
  pager: Pager
}

interface Options {
  enabled?: boolean
  /** The interval for reading the page again, in milliseconds, if it is shorter than the default. */
  refreshMs?: number
}

declare module '@tanstack/react-router' {
  interface HistoryState {
    /** The previous pages, by the name of the list. */
    trails?: Readonly<Record<string, readonly string[]>>
  }
}

/**
 * A list page by page. The current page is in the address, under the list's name, so that a shared link opens it. The
 * previous pages are in the state of the browser's history; without them, "Previous page" opens the first page.
 */
export function usePages<Row>(name: string, list: PagedList<Row>, options: Options = {}): ShownPage<Row> {
  const [address] = useAddress()
  const navigate = useNavigate()
  const trail = useRouterState({ select: ({ location }) => location.state.trails?.[name] ?? [] })
  const cursor = address[name]
  const query = useQuery({
    queryKey: [...list.key, cursor ?? ''],
    queryFn: ({ signal }) => list.load(cursor === undefined ? {} : { cursor }, signal),
    placeholderData: keepPreviousData,
    enabled: options.enabled ?? true,
    ...(options.refreshMs !== undefined && { refetchInterval: options.refreshMs }),
  })
  const { data, isPlaceholderData } = query
  const go = (to: string | undefined, before: readonly string[]) =>
    void navigate({
      to: '.',
      search: (now: AddressChange) => ({ ...now, [name]: to }),
      state: (now) => ({ ...now, trails: { ...now.trails, [name]: before } }),
      resetScroll: false,
    })
  const next = data?.next_cursor
  return {
    rows: data?.data,
    of: query,
    isMoving: isPlaceholderData,
    pager: {
      previous: cursor === undefined ? null : () => go(trail.at(-1) || undefined, trail.slice(0, -1)),
      next:
        next && !isPlaceholderData ? () => go(next, cursor === undefined ? [''] : [...trail, cursor]) : null,
    },
  }
}
