/** The version of every answer, and of every event unless a test sets another. */
export const apiVersion = '2026-10-28.endive'

/** From this version on an invoice names its subscription in `parent`, and a charge no longer names its invoice. */
const basil = '2025-03-31'

type Members = Record<string, unknown>

/** Converts an object to an API version. Only the references between payments are converted, for versions before basil. */
export function asOfVersion(version: string, object: object): object {
  if (version >= basil) return object
  const members = object as Members
  switch (members['object']) {
    case 'invoice': {
      const { parent, ...rest } = members
      const details = Object((parent as Members | null)?.['subscription_details']) as Members
      return {
        ...rest,
        subscription: details['subscription'] ?? null,
        subscription_details: { metadata: details['metadata'] ?? {} },
        paid: members['status'] === 'paid',
      }
    }
    case 'subscription': {
      const [item] = (members['items'] as { data: Members[] }).data
      return {
        ...members,
        current_period_end: item?.['current_period_end'],
        current_period_start: item?.['current_period_start'],
      }
    }
    default:
      return object
  }
}
