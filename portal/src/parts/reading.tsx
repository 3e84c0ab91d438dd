import type { UseQueryResult } from '@tanstack/react-query'
import { Problem } from './problem.tsx'

/** The part of a query that says whether its data is current. */
export type Reading = Pick<UseQueryResult, 'data' | 'error' | 'dataUpdatedAt' | 'refetch'>

/** `old`: it was read before, and could not be read again. `unread`: it could not be read at all. */
export type Standing = 'current' | 'old' | 'unread'

export function standingOf({ data, error }: Pick<Reading, 'data' | 'error'>): Standing {
  if (error === null) return 'current'
  return data === undefined ? 'unread' : 'old'
}

/**
 * Says that a query failed and since when its data is. A query keeps its data when it fails, so old data would look current without it. If
 * several queries failed, it describes the first and tries all of them again.
 */
export function ReadProblem({ of }: { of: Reading | readonly Reading[] }) {
  const failed = [of].flat().filter(({ error }) => error !== null)
  const [first] = failed
  if (!first) return null
  return (
    <Problem
      error={first.error}
      retry={() => failed.forEach(({ refetch }) => void refetch())}
      {...(standingOf(first) === 'old' && { readAt: first.dataUpdatedAt })}
    />
  )
}
