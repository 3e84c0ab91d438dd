import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useNavigate, useRouterState } from '@tanstack/react-router'
import type { PagedList } from '../api/paged-list.ts'
import { useAddress, type AddressChange } from './address.ts'
import type { Reading } from './problem.tsx'

/** What leads from page to page. */
export interface Pager {
  previous: (() => void) | null
  next: (() => void) | null
}

/** A page of a list, as the table shows it. */
export interface ShownPage<Row> {
  /** Undefined until the first answer; the last page's rows while the next one is loaded. */
  rows: readonly Row[] | undefined
  of: Reading
  isMoving: boolean
  pager: Pager
}

interface Options {
  enabled?: boolean
  /** How often the page is read again, in milliseconds, if it is more often than all that is shown. */
  refreshMs?: number
}

declare module '@tanstack/react-router' {
  interface HistoryState {
    /** By the list's name: the pages before this one. */
    trails?: Readonly<Record<string, readonly string[]>>
  }
}

/**
 * A list page by page. The page is in the address, under the list's name; the pages before it go with the history's
 * entry, so that a shared link opens its page, and leads back to the first.
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
