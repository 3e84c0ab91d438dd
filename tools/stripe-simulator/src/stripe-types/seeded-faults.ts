type Members = Record<string, unknown>

/** Where Stripe's types list the statuses that there are. */
const listedStatus = ['charge', 'checkout.session', 'dispute', 'invoice', 'payment_intent', 'subscription']

/** Values that Stripe would never send, each a single step from one that it does. */
export function seededFaults(members: Members): { what: string; value: Members }[] {
  const { id, object, ...rest } = members
  const [required = ''] = Object.keys(rest)
  return [
    { what: 'a member that Stripe does not know', value: { ...members, unheard_of: 1 } },
    { what: 'no id', value: { object, ...rest } },
    { what: 'a null for an id', value: { ...members, id: null } },
    { what: `${required} of another type`, value: { id, object, ...rest, [required]: { unheard_of: 1 } } },
    { what: 'another object’s name', value: { ...members, object: 'unheard_of' } },
    ...(listedStatus.includes(String(object))
      ? [{ what: 'a misspelled status', value: { ...members, status: 'suceeded' } }]
      : []),
  ]
}
