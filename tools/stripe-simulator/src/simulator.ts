import type { FastifyInstance } from 'fastify'
import type { AddressInfo } from 'node:net'
import { createdEndpointsFor } from './delivery/created-endpoints.ts'
import { Deliveries } from './delivery/deliveries.ts'
import type { Delivery } from './delivery/deliveries.ts'
import { runDue } from './flows/run-due.ts'
import { Faults } from './http/faults.ts'
import { IdempotencyKeys } from './http/idempotency.ts'
import type { SavedAnswers } from './http/idempotency.ts'
import { RequestLog } from './http/request-log.ts'
import { defaultEnabledEvents } from './objects/event.ts'
import { newServer, serve } from './server.ts'
import { dumpWorld, restoreWorld } from './world/dump.ts'
import { StateFile, readStateFile } from './world/state-file.ts'
import { checkoutUrl, newWorld } from './world/world.ts'
import type { World } from './world/world.ts'

export type SimulatorOptions = {
  host?: string
  /** 0, the default, picks a free one. */
  port?: number
  /** Where customers reach the checkout page; the listening address when not given. */
  publicUrl?: string
  webhookUrl?: string
  webhookSecret?: string
  /** Event types that the endpoint is subscribed to, or `['*']`. */
  enabledEvents?: string[]
  /** Pauses between the tries to deliver an event; their number bounds the tries. */
  retryDelaysMs?: number[]
  /** Keeps the state over restarts. */
  stateFile?: string
  logLevel?: string
}

export type Simulator = AsyncDisposable & {
  url: string
  port: number
  webhookSecret: string
  /** Where events go from now on. */
  sendWebhooksTo: (url: string) => void
  /** Does a control action over HTTP, as `POST /_sim/<name>`. */
  control: <Result = Record<string, unknown>>(name: string, body?: object) => Promise<Result>
  /** Resolves when no event is on its way any more; what is held stays held. */
  settled: () => Promise<void>
  stop: () => Promise<void>
}

type SavedState = ReturnType<typeof dumpWorld> & {
  simulated: true
  version: 1
  deliveries: Delivery[]
  idempotencyKeys: SavedAnswers
}

export const defaultWebhookSecret = 'whsec_simulated'
const defaultRetryDelaysMs = [500, 1000, 2000, 4000, 8000, 15_000, 30_000, 60_000, 120_000, 300_000]
const expiryCheckMs = 2000

/** Starts a simulated Stripe in this process. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const server = newServer(options.logLevel ?? 'silent')
  const webhookSecret = options.webhookSecret ?? defaultWebhookSecret
  const enabledEvents = options.enabledEvents ?? defaultEnabledEvents
  const { world, deliveries, keys, control, stateFile } = assemble(server, options, {
    webhookSecret,
    enabledEvents,
  })
  if (options.stateFile !== undefined) {
    const saved = (await readStateFile(options.stateFile)) as SavedState | null
    if (saved !== null) {
      if (saved.version !== 1) throw new Error(`STATE_FILE ${options.stateFile} is of another version`)
      restoreWorld(world, saved)
      keys.restore(saved.idempotencyKeys)
      deliveries.restore(saved.deliveries)
    }
  }
  serve(server, control)
  const url = await listen(server, options)
  world.publicUrl = options.publicUrl?.replace(/\/$/, '') ?? url
  renewUrls(world)
  const expiry = setInterval(() => {
    if (runDue(world, { unattended: true }) > 0) control.changed()
  }, expiryCheckMs)

  const stop = async (): Promise<void> => {
    clearInterval(expiry)
    await server.close()
    await deliveries.stop()
    await stateFile?.flush()
  }
  return {
    url,
    port: Number(new URL(url).port),
    webhookSecret,
    sendWebhooksTo: (to) => {
      deliveries.endpoint = { url: to, secret: webhookSecret, enabledEvents }
    },
    control: (name, body = {}) => postControl(url, name, body),
    settled: () => deliveries.settled(),
    stop,
    [Symbol.asyncDispose]: stop,
  }
}

function assemble(
  server: FastifyInstance,
  { webhookUrl, retryDelaysMs, stateFile: path }: SimulatorOptions,
  { webhookSecret, enabledEvents }: { webhookSecret: string; enabledEvents: string[] },
) {
  const world = newWorld()
  const keys = new IdempotencyKeys()
  const faults = new Faults()
  const requests = new RequestLog()
  const dump = (): SavedState => ({
    simulated: true,
    version: 1,
    ...dumpWorld(world),
    deliveries: deliveries.dump(),
    idempotencyKeys: keys.dump(),
  })
  const stateFile = path === undefined ? undefined : new StateFile(path, dump)
  const changed = (): void => stateFile?.changed()
  const deliveries = new Deliveries({
    endpoint: webhookUrl === undefined ? null : { url: webhookUrl, secret: webhookSecret, enabledEvents },
    retryDelaysMs: retryDelaysMs ?? defaultRetryDelaysMs,
    createdEndpointsFor: (event) => createdEndpointsFor(world, event),
    findEvent: (id) => world.events.findAnywhere(id)?.object,
    log: (event, attempt) => server.log.info({ event: event.id, type: event.type, ...attempt }, 'webhook'),
    changed,
  })
  world.emitter.deliverWith((event) => deliveries.accept(event))
  const reset = (): void => {
    restoreWorld(world, dumpWorld(newWorld()))
    keys.restore([])
    deliveries.forgetAll()
    deliveries.rules.clear()
    faults.clear()
    requests.clear()
    changed()
  }
  const control = { world, keys, faults, requests, deliveries, changed, reset }
  return { world, deliveries, keys, control, stateFile }
}

/** A restart may have moved the checkout page to another port. */
function renewUrls(world: World): void {
  for (const { object } of world.sessions.dump()) {
    if (object.status === 'open') object.url = checkoutUrl(world, object.id)
  }
}

async function listen(server: FastifyInstance, { host, port }: SimulatorOptions): Promise<string> {
  await server.listen({ host: host ?? '127.0.0.1', port: port ?? 0 })
  const address = server.server.address() as AddressInfo
  const name = address.family === 'IPv6' ? `[${address.address}]` : address.address
  return `http://${name}:${address.port}`
}

async function postControl<Result>(url: string, name: string, body: object): Promise<Result> {
  const response = await fetch(`${url}/_sim/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`simulator refused ${name}: ${text}`)
  return JSON.parse(text) as Result
}
