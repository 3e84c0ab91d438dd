import type { Outcome, Sent } from '../outcome.ts'
import { groupBy, sentTo, type Rule } from './rule.ts'

/** A period in which an activation certainly held a lease. */
interface LeasePeriod {
  licenceId: string
  activationId: string
  from: number
  until: number
}

/** At no time does the database or do the answers show more leases of a licence than it allows. */
export const leasesWithinLimit: Rule = (outcome) => {
  const running = new Map(outcome.leases.map(({ licenceId, running }) => [licenceId, running]))
  const periods = groupBy(leasePeriods(outcome), ({ licenceId }) => licenceId)
  return outcome.licences.flatMap(({ id, maxConcurrent }) => {
    if (maxConcurrent === null) return []
    const max = Math.max(running.get(id) ?? 0, maxAtOnce(periods.get(id) ?? []))
    return max > maxConcurrent ? [`${id} had ${max} concurrent leases and allows ${maxConcurrent}`] : []
  })
}

function maxAtOnce(periods: LeasePeriod[]): number {
  const counts = periods.map(({ from }) => {
    const holders = periods.filter((each) => each.from <= from && from < each.until)
    return new Set(holders.map(({ activationId }) => activationId)).size
  })
  return Math.max(0, ...counts)
}

function leasePeriods(outcome: Outcome): LeasePeriod[] {
  const ended = groupBy(sentTo(outcome, 'release', 'free'), ({ asked }) => asked.activationId)
  const freed = groupBy(
    outcome.history.filter(({ type }) => type === 'activation_freed'),
    ({ cause }) => String(cause),
  )
  return sentTo(outcome, 'activate', 'refresh').flatMap((sent) => {
    const { licence_id: licenceId, activation_id: activationId, lease_ends_at: endsAt } = sent.body
    if (sent.answered !== 'acknowledged' || typeof endsAt !== 'string') return []
    const ends = [
      Date.parse(endsAt),
      ...(ended.get(String(activationId)) ?? [])
        .filter((end) => mayFollow(sent, end))
        .map(({ from }) => from),
      ...(freed.get(String(activationId)) ?? []).map(({ at }) => at),
    ]
    return [
      {
        licenceId: String(licenceId),
        activationId: String(activationId),
        from: sent.to,
        until: Math.min(...ends),
      },
    ]
  })
}

/** Whether `later` may have been executed after `sent`. A request without an answer may be executed at any later time. */
const mayFollow = (sent: Sent, later: Sent) => later.answered === 'unknown' || later.to > sent.from
