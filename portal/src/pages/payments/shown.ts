import { useQuery } from '@tanstack/react-query'
import { plansQuery } from '../../api/plans.ts'

/** Payments arrive by themselves. */
export const REFRESH_MS = 5000

/** A plan's name by its id; the id, where it is not known yet. */
export function usePlanNames(appId: string): (planId: string) => string {
  const { data = [] } = useQuery(plansQuery(appId))
  const names = new Map(data.map(({ id, name }) => [id, name]))
  return (planId) => names.get(planId) ?? planId
}
