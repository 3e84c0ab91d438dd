import type { FieldOf } from '@licensing/grpc/fields'
import { closedSets } from '@licensing/proto/closed-sets'
import type { EndpointFieldsSchema } from '@licensing/proto/notifier'
import { firstCharacters } from '@licensing/proto/text'
import { webhookEventTypes } from '@licensing/proto/webhook-events'
import { z } from 'zod'
import { headers, headersInAnswer } from '../../fields/headers.ts'
import { id, reference } from '../../fields/id.ts'
import type { BodyOf } from '../../fields/messages.ts'
import { optional, text, webhookUrl } from '../../fields/text.ts'

const maxDescription = 200
const maxPlans = 50

const subscribedEvents = z
  .string()
  .meta({ examples: ['licence.revoked, licence.expired'] })
  .transform((list, context) => {
    if (list.trim() === '*') return '*'
    const types = list.split(',').map((type) => type.trim())
    const unknown = types.find((type) => !webhookEventTypes.includes(type))
    if (unknown === undefined) return [...new Set(types)].join(',')
    const problem =
      unknown === '' ? 'an event type is empty' : `there is no event type ${firstCharacters(unknown, 64)}`
    context.addIssue({ code: 'custom', message: `${problem}; known: *, ${webhookEventTypes.join(', ')}` })
    return z.NEVER
  })

const plans = z
  .array(reference('pln', 'plan'))
  .min(1, 'must have at least one plan')
  .max(maxPlans, `must have at most ${maxPlans} plans`)
  .superRefine((ids, context) => {
    const repeated = ids.findIndex((one, at) => ids.indexOf(one) < at)
    if (repeated < 0) return
    context.addIssue({ code: 'custom', path: [repeated], message: 'is there twice' })
  })

const signature = z.enum(closedSets.webhookSignature)

/** A field that a vendor gives an endpoint. */
interface Field<Value> {
  given: z.ZodType<Value | undefined>
  shown: z.ZodType
  about: string
  /** `required`: each request that makes an endpoint has it. `default`: without it, an endpoint gets a default. Else null removes it. */
  is?: 'required' | 'default'
}

type Body = BodyOf<typeof EndpointFieldsSchema>
type Name = FieldOf<typeof EndpointFieldsSchema>

/** The fields that a vendor gives an endpoint: the bodies that make and change endpoints, and answers follow from them. */
const fields = {
  url: {
    given: webhookUrl,
    shown: z.string(),
    about: 'An https URL that is publicly reachable. Private and internal addresses are refused.',
    is: 'required',
  },
  subscribed_events: {
    given: subscribedEvents,
    shown: z.string(),
    about: '`*`, or event types separated by commas.',
    is: 'required',
  },
  description: {
    given: text({ min: 0, max: maxDescription }),
    shown: z.string().nullable(),
    about: 'Your own note.',
  },
  headers: {
    given: headers,
    shown: headersInAnswer.nullable(),
    about:
      'Headers that are sent with every attempt, such as `Authorization`. A change replaces all of them; answers have only their names.',
  },
  plans: {
    given: plans,
    shown: z.array(id('pln')).nullable(),
    about:
      'Events about a licence are sent only if it has one of these plans; null: any plan. Events that are not about a licence are always sent.',
  },
  paused: {
    given: z.boolean(),
    shown: z.boolean(),
    about: 'While it is true, deliveries wait and nothing is sent. Default: false.',
    is: 'default',
  },
  signature: {
    given: signature,
    shown: signature,
    about:
      'How attempts are signed: `default`, or `standard` as Standard Webhooks says. A change makes a new secret. Default: `default`.',
    is: 'default',
  },
} satisfies { [N in Name]: Field<NonNullable<Body[N]>> }

type Shape = { [N in Name]: z.ZodType<Body[N]> }

function shapeOf(schemaOf: (field: Field<unknown>) => z.ZodType): Shape {
  const schemas = Object.entries(fields).map(([name, field]) => [name, schemaOf(field).describe(field.about)])
  return Object.fromEntries(schemas) as Shape
}

/** The fields in a request that makes an endpoint. */
export const createdFields = shapeOf(({ given, is }) => (is === 'required' ? given : optional(given)))

/** The fields in a change: all are optional. */
export const changedFields = shapeOf(({ given, is }) => (is ? given : given.nullable()).optional())

/** The fields in answers. */
export const shownFields = shapeOf(({ shown }) => shown) as unknown as {
  [N in Name]: (typeof fields)[N]['shown']
}
