import type { AddressInfo } from 'node:net'
import { createLogger } from '@licensing/process/log'
import type { Logger } from '@licensing/process/log'
import { fastify, LogController, type FastifyInstance } from 'fastify'
import { parseForm } from './api/forms.ts'
import { serveApi, type Fault } from './api/serve.ts'
import { serveControl } from './control.ts'
import { Deliveries } from './events.ts'
import { serveCheckout } from './pages/checkout.ts'
import { serveConsent } from './pages/consent.ts'
import { servePortal } from './pages/portal.ts'
import { newWorld } from './world.ts'

export type SimulatorOptions = {
  host?: string | undefined
  /** 0, the default, picks a free one. */
  port?: number | undefined
  /** Base URL of the pages for customers; by default the listening address. */
  publicUrl?: string | undefined
  webhookUrl?: string | undefined
  webhookSecret?: string | undefined
  /** Delays between the attempts to deliver an event. After the last delay there is one more attempt. */
  retryDelaysMs?: number[] | undefined
  log?: Logger | undefined
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

const usualRetryDelaysMs = [500, 1000, 2000, 4000, 8000, 15_000, 30_000, 60_000, 120_000, 300_000]

/** Starts a simulated Stripe in this process. Its state is in memory and ends with it. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const { webhookSecret = 'whsec_simulated' } = options
  const log = (options.log ?? createLogger('stripe-simulator', 'silent')).child({ simulated: true })
  const endpointAt = (url: string) => ({ url, secret: webhookSecret })
  const deliveries = new Deliveries(
    options.webhookUrl === undefined ? null : endpointAt(options.webhookUrl),
    options.retryDelaysMs ?? usualRetryDelaysMs,
    ({ id, type }, attempt) => log.info({ event: id, type, ...attempt }, 'webhook'),
  )
  const world = newWorld((event) => deliveries.accept(event))
  const server = newServer(log)
  const faults: Fault[] = []
  serveApi(server, world, faults)
  serveControl(server, world, deliveries, faults)
  serveCheckout(server, world)
  serveConsent(server, world)
  servePortal(server, world)

  await server.listen({ host: options.host ?? '127.0.0.1', port: options.port ?? 0 })
  const { address, family, port } = server.server.address() as AddressInfo
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
  world.publicUrl = options.publicUrl?.replace(/\/$/, '') ?? url
  const stop = async (): Promise<void> => {
    await server.close()
    await deliveries.stop()
  }
  return {
    url,
    port,
    webhookSecret,
    sendWebhooksTo: (to) => void (deliveries.endpoint = endpointAt(to)),
    control: (name, body = {}) => postControl(url, name, body),
    settled: () => deliveries.settled(),
    stop,
    [Symbol.asyncDispose]: stop,
  }
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

function newServer(log: Logger): FastifyInstance {
  const server = fastify({
    // Connections with withheld answers must not prevent the server from stopping.
    forceCloseConnections: true,
    logController: new LogController({ disableRequestLogging: true }),
    routerOptions: { querystringParser: parseForm },
    loggerInstance: log,
  }) as unknown as FastifyInstance
  server.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => done(null, body),
  )
  server.addHook('onRequest', async (request, reply) => {
    reply.header('x-simulated', 'stripe-simulator; no money moves')
    // A page of another site must not trigger actions.
    const isForeign = request.headers['sec-fetch-site'] === 'cross-site'
    if (isForeign && request.method !== 'GET') await reply.code(403).send({ error: 'cross-site request' })
  })
  server.addHook('onResponse', async ({ method, url }, { statusCode }) => {
    log.debug({ method, url, status: statusCode }, 'request')
  })
  server.setNotFoundHandler(({ method, url }, reply) => {
    const message = `Unrecognized request URL (${method}: ${url}). The simulator has only a part of Stripe's API.`
    return reply.code(404).send({ error: { type: 'invalid_request_error', message } })
  })
  server.get('/healthz', () => ({ status: 'ok', simulated: true }))
  return server
}
