import type { AddressInfo } from 'node:net'
import { fastify, LogController, type FastifyInstance } from 'fastify'
import { apiRoutes } from './api/routes.ts'
import { serveApi } from './api/serve-api.ts'
import type { Control } from './control/control.ts'
import { serveControl } from './control/routes.ts'
import { Deliveries, type Delivery } from './delivery/deliveries.ts'
import { runDue } from './flows/run-due.ts'
import { Faults } from './http/faults.ts'
import { IdempotencyKeys, type SavedAnswers } from './http/idempotency.ts'
import { parseForm } from './http/params.ts'
import { defaultEnabledEvents } from './objects/event.ts'
import { serveOauth } from './pages/oauth.ts'
import { servePages } from './pages/routes.ts'
import { readStateFile, StateFile } from './world/state-file.ts'
import { checkoutUrl, dumpWorld, newWorld, restoreWorld, type World } from './world/world.ts'

export type SimulatorOptions = {
  host?: string
  /** 0, the default, picks a free one. */
  port?: number
  /** Base URL of the checkout page for customers; by default the listening address. */
  publicUrl?: string
  webhookUrl?: string
  webhookSecret?: string
  /** Event types that the endpoint is subscribed to, or `['*']`. */
  enabledEvents?: string[]
  /** Delays between the attempts to deliver an event. After the last delay there is one more attempt. */
  retryDelaysMs?: number[]
  /** A file that keeps the state over restarts. */
  stateFile?: string
  logLevel?: string
  /** A file that gets the log instead of standard output. */
  logFile?: string
}

export type Simulator = AsyncDisposable & {
  url: string
  port: number
  webhookSecret: string
  /** Sets the URL that gets events from now on. */
  sendWebhooksTo: (url: string) => void
  /** Runs a control action over HTTP: `POST /_sim/<name>`. */
  control: <Result = Record<string, unknown>>(name: string, body?: object) => Promise<Result>
  /** Resolves when no delivery is pending. Held deliveries stay held. */
  settled: () => Promise<void>
  stop: () => Promise<void>
}

type SavedState = ReturnType<typeof dumpWorld> & {
  simulated: true
  version: 1
  deliveries: Delivery[]
  idempotencyKeys: SavedAnswers
}

const defaultWebhookSecret = 'whsec_simulated'
const defaultRetryDelaysMs = [500, 1000, 2000, 4000, 8000, 15_000, 30_000, 60_000, 120_000, 300_000]
const expiryCheckMs = 2000

/** Starts a simulated Stripe in this process. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const server = newServer(options)
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
    if (runDue(world) > 0) control.changed()
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
    findEvent: (id) => world.events.findAnywhere(id)?.object,
    log: (event, attempt) => server.log.info({ event: event.id, type: event.type, ...attempt }, 'webhook'),
    changed,
  })
  world.emitter.deliverWith((event) => deliveries.accept(event))
  const control = { world, keys, faults, deliveries, changed }
  return { world, deliveries, keys, control, stateFile }
}

/** Updates the URLs of checkout pages, because the port may have changed with a restart. */
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

function newServer({ logLevel = 'silent', logFile }: SimulatorOptions): FastifyInstance {
  return fastify({
    // Connections with withheld answers must not prevent the server from stopping.
    forceCloseConnections: true,
    logController: new LogController({ disableRequestLogging: true }),
    routerOptions: { querystringParser: parseForm },
    logger: {
      level: logLevel,
      ...(logFile !== undefined && { file: logFile }),
      base: { service: 'stripe-simulator', simulated: true },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
  })
}

function serve(server: FastifyInstance, control: Control): void {
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, body),
  )
  server.addHook('onRequest', async (request, reply) => {
    reply.header('x-simulated', 'stripe-simulator; no money moves')
    // A page of another site must not trigger actions.
    const foreign = request.headers['sec-fetch-site'] === 'cross-site'
    if (foreign && request.method !== 'GET') await reply.code(403).send({ error: 'cross-site request' })
  })
  server.addHook('onResponse', async (request, reply) => {
    const { method, url } = request
    request.log.debug({ method, url, status: reply.statusCode }, 'request')
  })
  server.setNotFoundHandler((request, reply) => {
    const message = `Unrecognized request URL (${request.method}: ${request.url}). The simulator has only a part of Stripe's API.`
    return reply.code(404).send({ error: { type: 'invalid_request_error', message } })
  })
  server.get('/healthz', () => ({ status: 'ok', simulated: true }))
  serveApi(server, control, apiRoutes)
  serveControl(server, control)
  servePages(server, control)
  serveOauth(server, control)
}
