/** Of every answer, and of every event unless a test chooses otherwise. */
export const apiVersion = '2026-10-28.endive'

/** From here on an invoice names its subscription in `parent`, and a charge no longer names its invoice. */
const basil = '2025-03-31'

type Members = Record<string, unknown>

/** An object as an API version from before basil had it, as far as the references between payments go. */
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
