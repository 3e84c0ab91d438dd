import { givenFields } from '@licensing/grpc/given-fields'
import type { WebhookSignature } from '@licensing/proto/closed-sets'
import { EndpointFieldsSchema } from '@licensing/proto/notifier'
import { readSubscription, shownHeaders, writeSubscription } from './endpoint.ts'
import type { Subscription } from './endpoint.ts'

/** The columns of the fields that a vendor gives an endpoint. */
export interface FieldColumns {
  url: string
  subscribed_events: Subscription
  description: string | null
  header_names: string[] | null
  plans: string[] | null
  paused: boolean
  signature: WebhookSignature
}

/** The columns with the values of headers, which are encrypted before they are written. */
export interface GivenColumns extends FieldColumns {
  headers: Record<string, string> | null
}

/**
 * The fields that a vendor gives an endpoint when it is made, and can change. The gateway checks headers and plans. Whether a
 * host is public is checked beside this list, because names have to be resolved.
 */
export const endpointFields = givenFields<GivenColumns, typeof EndpointFieldsSchema>(EndpointFieldsSchema, {
  url: { isRequired: true },
  subscribed_events: {
    isRequired: true,
    problem: (text) => {
      const subscription = readSubscription(text)
      return 'problem' in subscription ? subscription.problem : undefined
    },
    columns: (text) => ({ subscribed_events: typesOf(text) }),
    shown: ({ subscribed_events: types }) => writeSubscription(types),
  },
  description: {},
  headers: {
    columns: (given) => {
      const names = Object.keys(given ?? {})
      return names.length === 0
        ? { header_names: null, headers: null }
        : { header_names: names, headers: given as Record<string, string> }
    },
    shown: ({ header_names: names }) => shownHeaders(names),
  },
  plans: { columns: (ids) => ({ plans: ids && ids.length > 0 ? ids : null }) },
  paused: { isRequired: true },
  signature: { isRequired: true },
})

function typesOf(text: string | null): Subscription {
  const subscription = readSubscription(text ?? '')
  return 'types' in subscription ? subscription.types : null
}
