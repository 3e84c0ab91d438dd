import { createInterface } from 'node:readline'
import { LicenceClient } from '../src/product/client.ts'
import { fileStore, machineFingerprint } from '../src/node.ts'
import { verifyWebhook, WebhookVerificationError } from '../src/webhooks.ts'
import { call, inNotation, optionsOf, type ClientFields, type Step } from './vector.ts'

// The driver of TypeScript for the suite of all languages. `sdk/suite/README.md` describes its protocol.

interface Request {
  readonly id: number
  readonly call: string
  readonly client?: string
  readonly argument?: string | object | null
  readonly options?: ClientFields & {
    readonly store_file?: string
    readonly timeout_ms?: number
    readonly background?: boolean
  }
}

interface WebhookArgument {
  readonly body_base64: string
  readonly signature?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly secrets: string | readonly string[]
  readonly tolerance_seconds?: number
  readonly now?: string
}

interface Driven {
  readonly client: LicenceClient
  readonly clock: { now: number | null }
}

const clients = new Map<string, Driven>()

async function obey(request: Request): Promise<object> {
  const { argument } = request
  if (request.call === 'new') return open(request)
  if (request.call === 'machine_fingerprint') {
    const { app_id: appId, file } = argument as { app_id: string; file?: string }
    return { text: await machineFingerprint({ appId, file }) }
  }
  if (request.call === 'verify_webhook') return verify(argument as WebhookArgument)

  const driven = clients.get(request.client ?? 'a')
  if (!driven) throw new Error(`there is no client ${request.client}`)
  const { client, clock } = driven
  switch (request.call) {
    case 'clock':
      clock.now = typeof argument === 'string' ? Date.parse(argument) : null
      return { ok: true }
    case 'create_offline_request':
      return { text: client.createOfflineRequest() }
    case 'has_feature':
      return { value: client.hasFeature(argument as string) }
    case 'limit':
      return { value: client.limit(argument as string) }
    case 'covers':
      return { value: client.covers(argument as string) }
    case 'close':
      client.stop()
      return { ok: true }
    default: {
      const name = request.call === 'state' ? undefined : (request.call as NonNullable<Step['call']>)
      return { state: inNotation(await call(client, name, argument as string | undefined)) }
    }
  }
}

function open({ client: name = 'a', options }: Request): object {
  const { store_file: file, timeout_ms: timeoutMs, background, ...fields } = options!
  const clock: Driven['clock'] = { now: null }
  const client = new LicenceClient({
    ...optionsOf(fields),
    ...(file !== undefined && { store: fileStore(file) }),
    timeoutMs,
    background,
    clock: () => clock.now ?? Date.now(),
  })
  clients.set(name, { client, clock })
  return { ok: true }
}

async function verify(argument: WebhookArgument): Promise<object> {
  const { now } = argument
  const body = Buffer.from(argument.body_base64, 'base64')
  try {
    const event = await verifyWebhook(body, argument.headers ?? argument.signature, argument.secrets, {
      toleranceSeconds: argument.tolerance_seconds,
      ...(now !== undefined && { clock: () => Date.parse(now) }),
    })
    return { event }
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error
    return { reason: error.reason }
  }
}

createInterface({ input: process.stdin }).on('line', (line) => {
  const request = JSON.parse(line) as Request
  if (request.call === 'exit') process.exit(Number(request.argument))
  void obey(request)
    .catch((error: unknown) => ({ threw: error instanceof Error ? error.message : String(error) }))
    .then((answer) => process.stdout.write(`${JSON.stringify({ id: request.id, ...answer })}\n`))
})
