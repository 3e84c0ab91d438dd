import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { DescMessage, DescMethod, DescService, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import { MethodOptions_IdempotencyLevel } from '@bufbuild/protobuf/wkt'
import type { Int32Value, StringValue } from '@bufbuild/protobuf/wkt'
import { Metadata, Server, ServerCredentials, status as Status } from '@grpc/grpc-js'
import type {
  sendUnaryData,
  ServerUnaryCall,
  ServiceDefinition,
  UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { operator, requestContext, withRequestContext } from '@licensing/process/context'
import type { Health } from '@licensing/process/health'
import type { Logger } from '@licensing/process/log'
import { contextFrom, inSpan } from '@licensing/process/telemetry'
import { SpanKind } from '@opentelemetry/api'
import { randomUUID } from 'node:crypto'
import { Histogram } from 'prom-client'
import type { CheckCaller } from './callers.ts'
import { withCallContext } from './call-context.ts'
import { ServiceError, toWire } from './errors.ts'
import { serveInProcess } from './in-process.ts'
import type { ServedCall } from './in-process.ts'
import { healthCheck, healthService, statusOf } from './health-check.ts'
import { markReplayed, servedKey } from './idempotency-key.ts'
import { missingScope, scopeIds } from './scope.ts'

/** A service's handlers. Each takes a request and returns the answer as a plain object, typed from the descriptor. */
export type Handlers<S extends DescService> = {
  [K in keyof S['method']]: (
    request: MessageShape<S['method'][K]['input']>,
  ) => Promise<MessageInitShape<S['method'][K]['output']>>
}

/** Handlers bound to the service they implement; made by `implement`. */
export interface Implementation {
  definition: ServiceDefinition
  handlers: UntypedServiceImplementation
  name: string
}

interface HandlerSettings {
  log: Logger
  /** Checks the caller of each call. If absent, anyone may call all RPCs. */
  checkCaller?: CheckCaller | undefined
  /** Whether an error other than a ServiceError means that a dependency, such as the database, is unavailable. */
  isUnavailable?: (error: unknown) => boolean
  /** Refuses calls about an account or an application that has moved. @throws ServiceError */
  checkMoved?: (accountOrApplicationId: string) => void
}

export interface ServeOptions extends HandlerSettings {
  /** Where to listen; port 0 takes a free one. */
  address: { host: string; port: number }
  services: ((settings: HandlerSettings) => Implementation)[]
  health: Health
}

type UntypedHandler = (request: MessageShape<DescMessage>) => Promise<Record<string, unknown>>

const durations = new Histogram({
  name: 'grpc_server_duration_seconds',
  help: 'Time from a call’s arrival to its answer',
  labelNames: ['method', 'code'],
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
})

// Longest time that a call may take, in milliseconds.
const maxCallMs = 60_000

/**
 * Binds handlers to a service descriptor. A request with an empty account or application id violates the contract, so its
 * caller has a defect: the request reaches no handler, is logged, and gets `internal`.
 *
 * @example serve({ services: [implement(CatalogService, { getPlan: async (request) => ({ … }) })], … })
 */
export function implement<S extends DescService>(
  service: S,
  handlers: Handlers<S>,
): (settings: HandlerSettings) => Implementation {
  return (settings) => {
    const definition: Record<string, ServiceDefinition[string]> = {}
    const bound: UntypedServiceImplementation = {}
    for (const method of service.methods) {
      const { input, output } = method
      definition[method.localName] = {
        path: `/${service.typeName}/${method.name}`,
        requestStream: false,
        responseStream: false,
        requestSerialize: (message: MessageShape<DescMessage>) => Buffer.from(toBinary(input, message)),
        requestDeserialize: (bytes: Buffer) => fromBinary(input, bytes),
        responseSerialize: (message: MessageShape<DescMessage>) => Buffer.from(toBinary(output, message)),
        responseDeserialize: (bytes: Buffer) => fromBinary(output, bytes),
      }
      const handler = handlers[method.localName as keyof Handlers<S>] as unknown as UntypedHandler
      const scoped = withinScope(method, handler, settings.checkMoved)
      bound[method.localName] = unary(method, output, scoped, settings)
    }
    return { definition, handlers: bound, name: service.typeName }
  }
}

/** Whether an operator makes the call, who may see accounts that move. The database refuses changes. */
const isOperators = () => requestContext()?.caller?.actor === operator

function withinScope(
  method: DescMethod,
  handler: UntypedHandler,
  checkMoved: HandlerSettings['checkMoved'],
): UntypedHandler {
  const missing = missingScope(method)
  const ids = scopeIds(method)
  return async (request) => {
    const path = missing(request)
    if (path !== undefined) throw new Error(`the request names no ${path}`)
    if (checkMoved && !isOperators()) for (const id of ids(request)) checkMoved(id)
    return handler(request)
  }
}

function unary(
  { parent, name: rpc, localName, idempotency }: DescMethod,
  output: DescMessage,
  handler: UntypedHandler,
  settings: HandlerSettings,
) {
  const name = `${parent.typeName}/${rpc}`
  return (call: ServedCall<MessageShape<DescMessage>>, callback: sendUnaryData<unknown>): void => {
    const startedMs = performance.now()
    const header = (key: string) => call.metadata.get(key)[0]?.toString()
    const [accountId, actor, operation] = ['x-account-id', 'x-actor', 'x-operation'].map(header)
    const context = {
      requestId: header('x-request-id') ?? randomUUID(),
      ...(accountId && { accountId }),
      ...(actor && operation && { caller: { actor, operation } }),
    }
    const cancellation = new AbortController()
    // `cancelled` is also emitted after the answer. An abort would then only cost time, since it creates an error.
    call.once('cancelled', () => answered || cancellation.abort())
    const deadline = call.getDeadline()
    const latestMs = Date.now() + maxCallMs
    const deadlineMs = Math.min(deadline instanceof Date ? deadline.getTime() : deadline, latestMs)
    const idempotencyKey = servedKey(call.metadata, call.request)
    const mayBeDone =
      idempotency === MethodOptions_IdempotencyLevel.IDEMPOTENT &&
      idempotencyKey === undefined &&
      header(previousAttempts) !== undefined
    let answered = false
    const finish = (code: number) => {
      answered = true
      durations.observe(
        { method: name, code: Status[code] ?? String(code) },
        (performance.now() - startedMs) / 1000,
      )
    }

    const refusal = settings.checkCaller?.(call.metadata, parent.typeName, localName)
    if (refusal) {
      callback(refusal)
      return finish(refusal.code)
    }
    void withRequestContext(context, () =>
      withCallContext({ deadlineMs, signal: cancellation.signal, idempotencyKey }, () =>
        inSpan(
          name,
          { kind: SpanKind.SERVER },
          contextFrom({ traceparent: header('traceparent'), tracestate: header('tracestate') }),
          async () => create(output, await handler(call.request)),
        ).then(
          (answer) => {
            if (idempotencyKey?.replayed) call.sendMetadata(markReplayed(new Metadata()))
            callback(null, answer)
            finish(Status.OK)
          },
          (error: unknown) => {
            const refusal = publicError(error, name, settings)
            const wire = mayBeDone && ofState(refusal) ? doneOrRefused(refusal) : toWire(refusal)
            callback(wire)
            finish(wire.code)
          },
        ),
      ),
    )
  }
}

// grpc-js sets this metadata when it repeats a call.
const previousAttempts = 'grpc-previous-rpc-attempts'

/** Whether a call is refused because of the state of a resource, which another call may just have changed. */
function ofState({ code }: ServiceError): boolean {
  return code === 'conflict' || code === 'plan_archived' || code === 'not_found'
}

/** The answer for a repeated call that is refused: the first attempt may have succeeded, and its answer been lost. */
function doneOrRefused(refusal: ServiceError): ReturnType<typeof toWire> {
  const wire = toWire(
    new ServiceError(
      'unavailable',
      `whether this was done is not known, as an answer was lost; now: ${refusal.message}`,
    ),
  )
  // Tells grpc-js not to retry, because another attempt would get the same answer.
  wire.metadata.set('grpc-retry-pushback-ms', '-1')
  return wire
}

function publicError(error: unknown, method: string, { log, isUnavailable }: HandlerSettings): ServiceError {
  if (error instanceof ServiceError) {
    if (error.code === 'internal' || error.code === 'unavailable')
      log.warn({ err: error, method }, error.code)
    return error
  }
  if (isUnavailable?.(error)) {
    log.warn({ err: error, method }, 'unavailable')
    return new ServiceError('unavailable', 'a dependency is temporarily unavailable: try again')
  }
  log.error({ err: error, method }, 'call failed')
  return new ServiceError('internal', 'something failed on our side')
}

/**
 * Serves gRPC, with the standard health service for the process's health.
 *
 * @returns the port, and `stop`, which waits for running calls
 */
export async function serve(options: ServeOptions): Promise<{ port: number; stop(): Promise<void> }> {
  const server = new Server({
    'grpc.enable_channelz': 0,
    'grpc.keepalive_time_ms': 20_000,
    'grpc.keepalive_timeout_ms': 5_000,
    'grpc.max_connection_age_ms': 300_000,
    'grpc.max_connection_age_grace_ms': maxCallMs,
    'grpc.max_receive_message_length': 16 * 1024 * 1024,
  })
  const implementations = options.services.map((service) => service(options))
  for (const { definition, handlers } of implementations) server.addService(definition, handlers)
  addHealth(server, ['', ...implementations.map(({ name }) => name)], options)

  const port = await new Promise<number>((resolve, reject) => {
    const { host, port } = options.address
    server.bindAsync(
      host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`,
      ServerCredentials.createInsecure(),
      (error, bound) => {
        if (error) reject(error)
        else resolve(bound)
      },
    )
  })
  const inProcess = serveInProcess(`${options.address.host}:${port}`, implementations)
  return {
    port,
    async stop() {
      const force = setTimeout(() => {
        inProcess.abandon()
        server.forceShutdown()
      }, 10_000)
      await inProcess.stop()
      await new Promise<void>((resolve) => server.tryShutdown(() => resolve()))
      clearTimeout(force)
    },
  }
}

/** Adds the standard health service. It checks the process's health at each request. */
function addHealth(server: Server, names: string[], { health, checkCaller }: ServeOptions): void {
  const check = (
    { request, metadata }: ServerUnaryCall<StringValue, Int32Value>,
    callback: sendUnaryData<Int32Value>,
  ) => {
    const refusal = checkCaller?.(metadata, healthService, 'Check')
    if (refusal) {
      callback(refusal)
      return
    }
    if (!names.includes(request.value)) {
      callback({ code: Status.NOT_FOUND, details: 'there is no such service' })
      return
    }
    void health.check().then(({ ready }) => callback(null, statusOf(ready)))
  }
  server.addService({ check: healthCheck }, { check })
}
