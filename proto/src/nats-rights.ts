import type { Callee } from './callers.ts'
import { deadLetterStream, deadLettersOf, streamOf, subjectsOf, type Source } from './event-streams.ts'

/** The services that use NATS, each with a user of its name. */
export const natsUsers = ['catalog', 'licensing', 'billing', 'notifier'] as const satisfies readonly Callee[]
export type NatsUser = (typeof natsUsers)[number]

/** What a service does with events. */
interface Part {
  sends?: Source
  consumes?: readonly Source[]
  /** What its replicas tell one another, which no other service hears. */
  among?: string
}

const parts: Readonly<Record<NatsUser, Part>> = {
  catalog: { sends: 'catalog' },
  licensing: { sends: 'licensing', consumes: ['catalog'] },
  billing: { sends: 'billing' },
  notifier: { consumes: ['licensing', 'billing'], among: 'notifier.>' },
}

/** A subject on which the account of the streams answers. */
interface Right {
  subject: string
  /** One request has many answers. */
  stream?: true
}

/**
 * All that a service may ask of the streams. It may create its own stream and not change one: a stream can be configured
 * to copy what it holds to any subject. JetStream refuses to create one that exists otherwise.
 */
export function natsRights(user: NatsUser): Right[] {
  const { sends, consumes = [] } = parts[user]
  return [
    // Where it is imported, the server does not import all of `$JS.API` by itself.
    { subject: '$JS.API.INFO' },
    ...(sends ? [{ subject: subjectsOf(sends) }, ...creation(streamOf(sends))] : []),
    ...(consumes.length > 0
      ? [{ subject: deadLettersOf(user) }, ...creation(deadLetterStream), ...consumes.flatMap(consumption)]
      : []),
  ]
}

/** What its replicas publish and subscribe to within the service's own account. */
export function natsSubjectsAmongReplicas(user: NatsUser): string[] {
  const { among } = parts[user]
  return among === undefined ? [] : [among]
}

function creation(stream: string): Right[] {
  return [{ subject: `$JS.API.STREAM.CREATE.${stream}` }, { subject: `$JS.API.STREAM.INFO.${stream}` }]
}

function consumption(source: Source): Right[] {
  const stream = streamOf(source)
  return [
    { subject: `$JS.API.STREAM.INFO.${stream}` },
    { subject: `$JS.API.STREAM.MSG.GET.${stream}` },
    { subject: `$JS.API.CONSUMER.CREATE.${stream}.*.${subjectsOf(source)}` },
    { subject: `$JS.API.CONSUMER.INFO.${stream}.*` },
    { subject: `$JS.API.CONSUMER.MSG.NEXT.${stream}.*`, stream: true },
    { subject: `$JS.API.CONSUMER.DELETE.${stream}.*` },
  ]
}
