import { sources, streamOf, type Source } from '@licensing/proto/event-streams'
import { natsUsers, type NatsUser } from '@licensing/proto/nats-rights'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { connect } from 'nats'
import type { NatsConnection } from 'nats'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { serversOf } from './connection.ts'
import { ensureStream } from './streams.ts'

const server = await startOwnNats()
let operator: NatsConnection
const connections = new Map<NatsUser, NatsConnection>()
beforeAll(async () => {
  operator = await connect(serversOf(server.url))
  for (const user of natsUsers) connections.set(user, await connect(serversOf(server.urlOf(user))))
  const jsm = await operator.jetstreamManager()
  for (const source of sources) await ensureStream(jsm, source, 1)
})
afterAll(async () => {
  await Promise.all([operator.close(), ...[...connections.values()].map((each) => each.close())])
  await server.stop()
})

const sends: Record<NatsUser, Source[]> = {
  catalog: ['catalog'],
  licensing: ['licensing'],
  billing: ['billing'],
  notifier: ['notifier'],
}
const consumes: Record<NatsUser, Source[]> = {
  catalog: [...sources],
  licensing: ['catalog'],
  billing: [],
  notifier: ['licensing', 'billing'],
}

const api = '$JS.API'
const ownStream = (source: Source) => [`STREAM.CREATE.${streamOf(source)}`, `STREAM.INFO.${streamOf(source)}`]
const reading = (source: Source) => [
  `CONSUMER.CREATE.${streamOf(source)}.reader.events.${source}.0`,
  `CONSUMER.INFO.${streamOf(source)}.reader`,
  `CONSUMER.MSG.NEXT.${streamOf(source)}.reader`,
  `CONSUMER.DELETE.${streamOf(source)}.reader`,
]
const streams = sources.map(streamOf)
/** Requests that change a stream, or read it without a consumer: only the operator may make them. */
const operatorsAlone = [
  ...streams.flatMap((stream) => [
    ...[
      'UPDATE',
      'DELETE',
      'PURGE',
      'MSG.DELETE',
      'SNAPSHOT',
      'RESTORE',
      'PEER.REMOVE',
      'LEADER.STEPDOWN',
    ].map((verb) => `STREAM.${verb}.${stream}`),
    `DIRECT.GET.${stream}`,
    `CONSUMER.CREATE.${stream}`,
    `CONSUMER.DURABLE.CREATE.${stream}.reader`,
    `CONSUMER.NAMES.${stream}`,
  ]),
  'STREAM.CREATE.ANOTHER',
  'STREAM.NAMES',
  'STREAM.LIST',
  'ACCOUNT.PURGE.EVENTS',
  'META.LEADER.STEPDOWN',
]

function mayAsk(user: NatsUser): string[] {
  return [
    ...sends[user].flatMap((source) => [
      `events.${source}.0`,
      ...ownStream(source).map((name) => `${api}.${name}`),
    ]),
    ...consumes[user].flatMap((source) => reading(source).map((name) => `${api}.${name}`)),
    ...consumes[user].map((source) => `log.${source}.${user}`),
    `${api}.INFO`,
    ...(user === 'notifier' ? ['notifier.endpoints-changed'] : []),
  ]
}

const everySubject = [
  ...new Set([
    ...natsUsers.flatMap(mayAsk),
    ...operatorsAlone.map((name) => `${api}.${name}`),
    ...sources.map((source) => `$JS.ACK.${streamOf(source)}.reader.1.1.1.1.0`),
    ...sources.flatMap((source) => natsUsers.map((user) => `log.${source}.${user}`)),
    ...sources.map((source) => `${api}.STREAM.MSG.GET.${streamOf(source)}`),
    'events.another.0',
    'events.licensing.0.x',
    '_INBOX.of.another',
    '$SYS.REQ.SERVER.PING',
    '$SYS.ACCOUNT.EVENTS.CLAIMS.UPDATE',
  ]),
]

/** The server's answer to a request: no responder, or not permitted. */
async function ask(nats: NatsConnection, subject: string): Promise<'refused' | 'let in'> {
  try {
    await nats.request(subject, '', { timeout: 5_000 })
    return 'let in'
  } catch (error) {
    const { code } = error as { code?: string }
    if (code === 'PERMISSIONS_VIOLATION') return 'refused'
    if (code === '503' || code === 'TIMEOUT') return 'let in'
    throw error
  }
}

test.each(natsUsers)('%s may use the subjects that its service needs, and no others', async (user) => {
  const answers = await Promise.all(
    everySubject.map(async (subject) => [subject, await ask(connections.get(user)!, subject)] as const),
  )
  const letIn = answers.filter(([, answer]) => answer === 'let in').map(([subject]) => subject)
  expect(letIn.toSorted()).toEqual(mayAsk(user).toSorted())
  expect(answers.length - letIn.length).toBeGreaterThan(50)
})

test.each(natsUsers)('%s receives no messages and no answers that are for another user', async (user) => {
  const nats = connections.get(user)!
  const heard: string[] = []
  for (const subject of ['>', 'events.>', 'log.>', '$JS.API.>', '_R_.>', '$SYS.>']) {
    const refused = await new Promise<boolean>((resolve) => {
      const subscription = nats.subscribe(subject, { callback: (error) => resolve(error !== null) })
      void nats.flush().then(() => setTimeout(() => (subscription.unsubscribe(), resolve(false)), 500))
    })
    expect([subject, refused]).toEqual([subject, true])
  }
  const inboxes = nats.subscribe('_INBOX.>', { callback: (_, { subject }) => heard.push(subject) })
  await nats.flush()
  const others = natsUsers.filter((other) => other !== user)
  for (const other of others) await connections.get(other)!.request(`${api}.INFO`, '', { timeout: 5_000 })
  await nats.flush()
  expect(heard).toEqual([])
  inboxes.unsubscribe()
})

const noEvent = Buffer.from('of another')

/** Permitted requests with a `reply` that the caller chooses: JetStream would send its answer to that subject. */
async function sendThroughJetStream(user: NatsUser, reply: string): Promise<void> {
  const nats = connections.get(user)!
  const publish = (subject: string, body?: string) => nats.publish(subject, body, { reply })
  publish(`${api}.INFO`)
  for (const source of sends[user]) {
    publish(`events.${source}.0`, 'own')
    for (const name of ownStream(source)) publish(`${api}.${name}`)
  }
  for (const source of consumes[user]) {
    const stream = streamOf(source)
    // JetStream answers these with an empty message, which it would itself accept as a request to delete or purge a stream.
    for (const config of [{ deliver_policy: 'new' }, { deliver_policy: 'all', headers_only: true }]) {
      const name = `reader-${crypto.randomUUID()}`
      const subject = `${api}.CONSUMER.CREATE.${stream}.${name}.events.${source}.0`
      const filter = { name, ack_policy: 'none', filter_subject: `events.${source}.0` }
      await nats.request(subject, JSON.stringify({ stream_name: stream, config: { ...filter, ...config } }))
      const next = `${api}.CONSUMER.MSG.NEXT.${stream}.${name}`
      publish(next, '{"batch":1,"no_wait":true}')
      publish(next, '{"batch":1,"max_bytes":1}')
      publish(next, '{"batch":1,"expires":300000000,"idle_heartbeat":100000000}')
      publish(next, 'no json')
      // A push consumer that delivers to `reply`.
      const pushing = `${name}-pushing`
      const push = { ...filter, name: pushing, deliver_policy: 'all', deliver_subject: reply }
      await nats.request(
        `${api}.CONSUMER.CREATE.${stream}.${pushing}.events.${source}.0`,
        JSON.stringify({ stream_name: stream, config: push }),
      )
    }
  }
  await nats.flush()
}

test.each(natsUsers)('%s cannot make JetStream do anything that it may not do itself', async (user) => {
  const jsm = await operator.jetstreamManager()
  const others = streams.filter((stream) => !sends[user].map(streamOf).includes(stream))
  for (const source of sources) {
    await operator.jetstream().publish(`events.${source}.0`, noEvent)
  }
  const contents = async () =>
    Promise.all(sources.map(streamOf).map(async (stream) => (await jsm.streams.info(stream)).state.messages))
  const own = sends[user].length > 0 ? sources.indexOf(sends[user][0]!) : -1
  const before = await contents()
  const targets = [
    ...others.flatMap((stream) =>
      ['DELETE', 'PURGE', 'MSG.DELETE'].map((v) => `${api}.STREAM.${v}.${stream}`),
    ),
    ...sources.filter((source) => !sends[user].includes(source)).map((source) => `events.${source}.0`),
  ]
  for (const target of targets) await sendThroughJetStream(user, target)
  // Receives late answers, for example of requests that expire.
  const inbox: string[] = []
  const mine = connections.get(user)!
  mine.subscribe('_INBOX.last.>', { callback: (_, { subject }) => inbox.push(subject) })
  await sendThroughJetStream(user, '_INBOX.last.x')
  const expected = 1 + 3 * sends[user].length + 7 * consumes[user].length
  await eventually(() => expect(inbox.length).toBeGreaterThanOrEqual(expected))
  const after = await contents()
  expect(after.filter((_, at) => at !== own)).toEqual(before.filter((_, at) => at !== own))
})

test('a sender does not create an existing stream with other settings', async () => {
  const config = { name: streamOf('licensing'), subjects: ['events.licensing.*'] }
  const copying = { ...config, republish: { src: '>', dest: 'copies.>' } }
  const answer = await connections
    .get('licensing')!
    .request(`${api}.STREAM.CREATE.LICENSING_EVENTS`, JSON.stringify(copying))
  expect(answer.json()).toMatchObject({ error: { err_code: 10058 } })
})

test('a sender that may not change its stream continues with the size it has', async () => {
  const jsm = await connections.get('billing')!.jetstreamManager()
  const sizeOf = async () =>
    (await (await operator.jetstreamManager()).streams.info('BILLING_EVENTS')).config.max_bytes
  const before = await sizeOf()
  await ensureStream(jsm, 'billing', 1, 5_000_000)
  expect(await sizeOf()).toBe(before)
})
