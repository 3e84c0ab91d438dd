import { ServiceError } from '@licensing/grpc/errors'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { isHostName } from '@licensing/proto/host-name'
import { statuses } from '../lifecycle/licence.ts'

type RefusingStatus = {
  [Status in LicenceStatus]: (typeof statuses)[Status]['grants'] extends 'nothing' ? Status : never
}[LicenceStatus]

/** Why a product may not run with a licence. */
export type RefusalReason = RefusingStatus | 'domain_not_allowed'

const refuses = (status: LicenceStatus): status is RefusingStatus => statuses[status].grants === 'nothing'

/**
 * Why a product may not run with a licence on this host, or undefined if it may (docs/guides/products.md, "Host"). After `expires_on` the
 * licence counts as expired, even before the sweep has changed its status.
 */
export function refusalReason(
  licence: { status: LicenceStatus; expires_on: Date | null; domains: string[] },
  host: string,
  now: Date,
): RefusalReason | undefined {
  if (isDue(licence, now)) return 'expired'
  const { domains, status } = licence
  if (refuses(status)) return status
  const isAllowed =
    domains.length === 0 || (isHostName(host) && domains.some((domain) => covers(domain, host)))
  return isAllowed ? undefined : 'domain_not_allowed'
}

/** Whether the licence's end has passed before the sweep. The sweep expires it, unless another of its purchases is valid. */
export function isDue(
  { status, expires_on: end }: { status: LicenceStatus; expires_on: Date | null },
  now: Date,
): boolean {
  return statuses[status].canExpire && isPast(end, now)
}

const isPast = (expiresOn: Date | null, now: Date) =>
  expiresOn !== null && expiresOn.getTime() <= now.getTime()

/** `*.example.com` covers subdomains of every depth, but not example.com itself. Both are in lower case. */
export function covers(domain: string, host: string): boolean {
  return domain.startsWith('*.')
    ? host.endsWith(domain.slice(1)) && host.length > domain.length - 1
    : host === domain
}

const details: Record<string, string> = {
  domain_not_allowed: 'the licence is not for this host: ask the vendor to add it to the licence’s domains',
  trial_used: 'this machine has had its trial: ask the vendor for a licence',
}

export function refused(reason: string): ServiceError {
  const detail = details[reason] ?? `the licence is ${reason}: ask the vendor`
  return new ServiceError('licence_refused', detail, { members: { reason } })
}
