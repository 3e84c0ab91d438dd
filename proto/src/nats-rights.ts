import type { Callee } from './callers.ts'
import { consumersOf, logSubjectOf, sources, streamOf, subjectsOf, type Source } from './event-streams.ts'

/** The services that use NATS, each with a user of its name. */
export const natsUsers = ['catalog', 'licensing', 'billing', 'notifier'] as const satisfies readonly Callee[]
export type NatsUser = (typeof natsUsers)[number]

/** A service's use of NATS. */
interface Part {
  sends?: Source
  /** Subject for messages between its replicas, which no other service receives. */
  among?: string
}

const parts: Readonly<Record<NatsUser, Part>> = {
  catalog: { sends: 'catalog' },
  licensing: { sends: 'licensing' },
  billing: { sends: 'billing' },
  notifier: { sends: 'notifier', among: 'notifier.>' },
}

/** A subject on which another account answers. */
interface Right {
  subject: string
  /** The service that answers; absent: the account of the streams. */
  of?: NatsUser
  /** A request gets several answers. */
  stream?: true
}

/**
 * The subjects of other accounts that a service may use. It may create its own stream but not change it, because a stream
 * can be configured to copy its messages to any subject. JetStream refuses to create a stream that exists with another
 * configuration.
 */
export function natsRights(user: NatsUser): Right[] {
  const { sends } = parts[user]
  return [
    // Without this import the server would import all of `$JS.API` by itself.
    { subject: '$JS.API.INFO' },
    ...(sends ? [{ subject: subjectsOf(sends) }, ...creation(streamOf(sends))] : []),
    ...sources.filter((source) => consumes(user, source)).flatMap((source) => consumption(source, user)),
  ]
}

/** The subjects on which a service answers the consumers of its log, one for each consumer. */
export function natsAnswers(user: NatsUser): { subject: string; to: NatsUser }[] {
  const { sends } = parts[user]
  if (!sends) return []
  return consumersOf[sends]
    .filter((consumer) => consumer !== user)
    .map((consumer) => ({ subject: logSubjectOf(sends, consumer), to: consumer }))
}

/** The subjects that replicas of a service publish and subscribe to within its own account. */
export function natsSubjectsAmongReplicas(user: NatsUser): string[] {
  const { sends, among } = parts[user]
  // A service that consumes its own events asks itself for its log.
  const own = sends !== undefined && consumes(user, sends) ? [logSubjectOf(sends, user)] : []
  return among === undefined ? own : [among, ...own]
}

function consumes(user: NatsUser, source: Source): boolean {
  return consumersOf[source].some((consumer) => consumer === user)
}

function creation(stream: string): Right[] {
  return [{ subject: `$JS.API.STREAM.CREATE.${stream}` }, { subject: `$JS.API.STREAM.INFO.${stream}` }]
}

function consumption(source: Source, user: NatsUser): Right[] {
  const stream = streamOf(source)
  return [
    { subject: `$JS.API.CONSUMER.CREATE.${stream}.*.${subjectsOf(source)}` },
    { subject: `$JS.API.CONSUMER.INFO.${stream}.*` },
    { subject: `$JS.API.CONSUMER.MSG.NEXT.${stream}.*`, stream: true },
    { subject: `$JS.API.CONSUMER.DELETE.${stream}.*` },
    ...(source === user ? [] : [{ subject: logSubjectOf(source, user), of: source }]),
  ]
}
