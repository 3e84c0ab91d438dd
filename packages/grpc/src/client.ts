import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type {
  DescMessage,
  DescMethod,
  DescService,
  Message,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf'
import { MethodOptions_IdempotencyLevel } from '@bufbuild/protobuf/wkt'
import type { Int32Value } from '@bufbuild/protobuf/wkt'
import { Client, credentials, Metadata, status as Status, connectivityState } from '@grpc/grpc-js'
import type { ServiceError as GrpcError } from '@grpc/grpc-js'
import { requestContext } from '@licensing/process/context'
import { inSpan, traceHeaders } from '@licensing/process/telemetry'
import { context, SpanKind } from '@opentelemetry/api'
import { retry } from '@licensing/process/retry'
import type { SignCall } from './callers.ts'
import { callContext } from './call-context.ts'
import { fromWire, notAnswered, ServiceError } from './errors.ts'
import { inProcess } from './in-process.ts'
import { healthCheck, servingStatus, wholeProcess } from './health-check.ts'
import { sendKey } from './idempotency-key.ts'

export interface CallOptions {
  /** Longest time for this call, in milliseconds. A call made for another call also ends at the deadline of that call. */
  timeoutMs?: number
  signal?: AbortSignal
}

/**
 * The plain object for a request. All fields are required, except those that the contract declares `optional`, messages and
 * repeated fields. If such a field is undefined, it is absent.
 */
export type RequestOf<M extends DescMessage> = Init<MessageShape<M>>

type Init<T extends Message> =
  T | ({ [K in RequiredField<T>]: T[K] } & { [K in OptionalField<T>]?: Part<T[K]> | undefined })

type FieldName<T> = Exclude<keyof T, keyof Message>
type RequiredField<T> = {
  [K in FieldName<T>]: undefined extends T[K] ? never : T[K] extends readonly unknown[] ? never : K
}[FieldName<T>]
type OptionalField<T> = Exclude<FieldName<T>, RequiredField<T>>
type Part<F> = F extends Message ? Init<F> : F extends (infer Row)[] ? Part<Row>[] : F

/** Typed calls of a service. Each resolves to its answer or rejects with a ServiceError. */
export type ServiceClient<S extends DescService> = {
  [K in keyof S['method']]: (
    request: RequestOf<S['method'][K]['input']>,
    options?: CallOptions,
  ) => Promise<MessageShape<S['method'][K]['output']>>
}

export interface Connection<S extends DescService> {
  calls: ServiceClient<S>
  /** Calls the server's health check. Resolves if it is serving; rejects if not, if it refuses this caller, or after `timeoutMs` milliseconds. */
  serving(timeoutMs: number): Promise<void>
  close(): void
}

const defaultTimeoutMs = 5_000

/**
 * Opens a channel to a service. It connects lazily, distributes calls over all addresses of the name, and reconnects
 * forever. If a server has just become unreachable, calls wait for it. If a stopping server refuses a call, it is sent again.
 * Calls that the contract marks as idempotent are retried if the server was unreachable.
 *
 * @param address host:port, or a target of gRPC such as ipv4:///10.0.0.1:7000,10.0.0.2:7000
 * @example const catalog = connectTo(CatalogService, 'catalog:7000'); await catalog.calls.getPlan({ … })
 */
export function connectTo<S extends DescService>(
  service: S,
  address: string,
  options: { timeoutMs?: number; sign?: SignCall } = {},
): Connection<S> {
  const target = /^[a-z][a-z0-9]*:\/\//.test(address) ? address : `dns:///${address}`
  const client = new Client(target, credentials.createInsecure(), {
    // Channelz counts each call several times, for a diagnostic page that nobody uses.
    'grpc.enable_channelz': 0,
    // Replaces the connection of a silent server after 10 seconds; the calls end at their deadlines.
    'grpc.keepalive_time_ms': 5_000,
    'grpc.keepalive_timeout_ms': 5_000,
    // It reconnects so fast that callers can wait for it.
    'grpc.initial_reconnect_backoff_ms': 100,
    'grpc.max_reconnect_backoff_ms': maxBackoffMs,
    'grpc.dns_min_time_between_resolutions_ms': 2_000,
    // A revocation list of 100,000 licences has 8 MiB.
    'grpc.max_receive_message_length': 64 * 1024 * 1024,
    'grpc.service_config': JSON.stringify(serviceConfig(service)),
    // TXT records are not searched for another configuration: if no name server answers, as in a network without a way
    // out, a program would end half a minute late.
    'grpc.service_config_disable_resolution': 1,
  })
  const reachable = reachability(client)
  const calls: Record<string, unknown> = {}
  for (const method of service.methods) {
    calls[method.localName] = (request: MessageInitShape<typeof method.input>, call: CallOptions = {}) =>
      unary({ client, address, reachable, sign: options.sign }, method, request, {
        timeoutMs: options.timeoutMs ?? defaultTimeoutMs,
        ...call,
      })
  }
  return {
    calls: calls as ServiceClient<S>,
    serving: (timeoutMs) => checkHealth(client, options.sign, timeoutMs),
    close: () => client.close(),
  }
}

function checkHealth(client: Client, sign: SignCall | undefined, timeoutMs: number): Promise<void> {
  const metadata = new Metadata()
  sign?.(metadata)
  const { path, requestSerialize, responseDeserialize } = healthCheck
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      path,
      requestSerialize,
      responseDeserialize,
      wholeProcess,
      metadata,
      { deadline: Date.now() + timeoutMs },
      (error: GrpcError | null, status?: Int32Value) => {
        if (status?.value === servingStatus.SERVING) resolve()
        else reject(error ?? new Error('is NOT_SERVING'))
      },
    )
  })
}

interface Target {
  client: Client
  address: string
  reachable: ReturnType<typeof reachability>
  sign: SignCall | undefined
}

function unary(
  { client, address, reachable, sign }: Target,
  method: DescMethod,
  request: MessageInitShape<DescMethod['input']>,
  options: CallOptions & { timeoutMs: number },
): Promise<unknown> {
  const served = callContext()
  const deadline = Math.min(Date.now() + options.timeoutMs, served?.deadlineMs ?? Number.POSITIVE_INFINITY)
  const name = `${method.parent.typeName}/${method.name}`
  const attempt = async () => {
    const within = inProcess(address, `/${name}`)
    const waiting = within ? undefined : reachable(deadline)
    if (waiting && !(await waiting)) throw notAnswered()
    const metadata = outgoingMetadata()
    sign?.(metadata)
    const readAnswer = sendKey(method, metadata)
    return await new Promise((resolve, reject) => {
      const call = (within ?? client).makeUnaryRequest(
        `/${name}`,
        (message: MessageShape<typeof method.input>) => Buffer.from(toBinary(method.input, message)),
        (bytes: Buffer) => fromBinary(method.output, bytes),
        create(method.input, request),
        metadata,
        { deadline },
        (error: GrpcError | null, answer) => {
          for (const signal of signals) signal.removeEventListener('abort', cancel)
          if (error) reject(fromWire(error))
          else resolve(answer)
        },
      )
      if (readAnswer) call.on('metadata', readAnswer)
      const cancel = () => call.cancel()
      const signals = [options.signal, served?.signal].filter((signal) => signal !== undefined)
      for (const signal of signals) {
        if (signal.aborted) cancel()
        else signal.addEventListener('abort', cancel, { once: true })
      }
    })
  }
  // If grpc-js retries the method, an earlier attempt may have been executed.
  const isRetried = (error: unknown) =>
    !isRetriedByGrpc(method) && isRefused(error) && Date.now() + refusedPauseMs <= deadline
  return inSpan(name, { kind: SpanKind.CLIENT }, context.active(), () =>
    retry(attempt, { firstMs: refusedPauseMs, maxMs: refusedPauseMs, isRetried }),
  )
}

// A stopping server refuses the streams that arrive before its client learns that it stops.
const refusedPauseMs = 20

/**
 * Whether the server refused the call's stream, so that no handler has seen it. grpc-js repeats such a call only once, at
 * once; the same server, or another one that stops, may refuse it again.
 */
function isRefused(error: unknown): boolean {
  const cause = error instanceof ServiceError ? (error.cause as GrpcError | undefined) : undefined
  return cause?.code === Status.UNAVAILABLE && cause.details === 'Stream refused by server'
}

function outgoingMetadata(): Metadata {
  // A call that a stopping server refused is sent to the next server as soon as one is available.
  const metadata = new Metadata({ waitForReady: true })
  const request = requestContext()
  if (request) metadata.set('x-request-id', request.requestId)
  if (request?.accountId) metadata.set('x-account-id', request.accountId)
  if (request?.caller) {
    metadata.set('x-actor', request.caller.actor)
    metadata.set('x-operation', request.caller.operation)
  }
  for (const [name, value] of Object.entries(traceHeaders())) metadata.set(name, value)
  return metadata
}

function isRetriedByGrpc({ idempotency }: DescMethod): boolean {
  return idempotency !== MethodOptions_IdempotencyLevel.IDEMPOTENCY_UNKNOWN
}

function serviceConfig(service: DescService): object {
  const safe = service.methods.filter(isRetriedByGrpc)
  const retried = {
    name: safe.map((method) => ({ service: service.typeName, method: method.name })),
    retryPolicy: {
      maxAttempts: 3,
      initialBackoff: '0.05s',
      maxBackoff: '0.5s',
      backoffMultiplier: 3,
      retryableStatusCodes: ['UNAVAILABLE'],
    },
  }
  return {
    loadBalancingConfig: [{ round_robin: {} }],
    methodConfig: safe.length > 0 ? [retried] : [],
  }
}

// A restarted server, or another replica, is reachable again within this time.
const reconnectWaitMs = 2_000
// If a server has been unreachable for longer, a call waits only for the next attempt to connect.
const maxBackoffMs = 500
const nextAttemptMs = maxBackoffMs * 1.4

/**
 * Checks whether a call can be sent. If the server has just become unreachable, the call waits for it. If the server stays
 * unreachable, calls fail after the next attempt to connect. Nothing was sent before that, so any call may wait.
 *
 * @returns a function of the call's deadline (milliseconds since 1970). It returns undefined if the call can be sent at
 *   once, and otherwise a promise that resolves with whether it can be sent
 */
function reachability(client: Client): (deadlineMs: number) => Promise<boolean> | undefined {
  const channel = client.getChannel()
  let unreachableSinceMs: number | undefined
  return (deadlineMs) => {
    const state = channel.getConnectivityState(true)
    if (state === connectivityState.READY) return undefined
    const nowMs = Date.now()
    if (state === connectivityState.TRANSIENT_FAILURE && unreachableSinceMs === undefined) {
      unreachableSinceMs = nowMs
      channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => (unreachableSinceMs = undefined))
    }
    const untilMs = Math.min(
      deadlineMs,
      Math.max((unreachableSinceMs ?? nowMs) + reconnectWaitMs, nowMs + nextAttemptMs),
    )
    return new Promise((resolve) => {
      client.waitForReady(untilMs, (error) => resolve(error === undefined))
    })
  }
}
