import type { UseQueryResult } from '@tanstack/react-query'
import { Problem } from './problem.tsx'

/** Something that was read, and is read again: a query. */
export type Reading = Pick<UseQueryResult, 'data' | 'error' | 'dataUpdatedAt' | 'refetch'>

/** `old`: it was read before, and could not be read again. `unread`: it could not be read at all. */
export type Standing = 'current' | 'old' | 'unread'

export function standingOf({ data, error }: Pick<Reading, 'data' | 'error'>): Standing {
  if (error === null) return 'current'
  return data === undefined ? 'unread' : 'old'
}

/**
 * Says that something could not be read, or not again: what is shown is then not current. Without it, old data would look like current data,
 * as a query keeps it. Of several the first that failed is described, and all are tried again.
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
