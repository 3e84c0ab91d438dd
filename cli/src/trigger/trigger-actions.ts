import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { LicenceClient } from '@licensing/sdk'
import { LicensingApiError, newIdempotencyKey } from '@licensing/sdk/backend'
import type { LicensingBackend, Schemas } from '@licensing/sdk/backend'
import { Refusal } from '../command/failures.ts'

/** The plans that this command uses. Each is created when it is first needed, and stays, because plans cannot be deleted. */
type TriggerPlan =
  'licensing-trigger' | 'licensing-trigger-other' | 'licensing-trigger-retired' | 'licensing-trigger-trial'

interface TriggerOptions {
  readonly backend: LicensingBackend
  readonly baseUrl: string
  readonly appId: string
  readonly simulatorUrl: URL | undefined
}

/** The actions that cause events. Each licence belongs to a new customer. */
export type TriggerActions = ReturnType<typeof createTriggerActions>

const price = { amount: 4900, currency: 'usd' } as const
const SETTLE_MS = 30_000

export function createTriggerActions({ backend, baseUrl, appId, simulatorUrl }: TriggerOptions) {
  const path = { app_id: appId }
  const reference = () => `trigger-${randomBytes(6).toString('hex')}`

  async function findPlan(code: string) {
    for await (const plan of backend.rows('/v1/apps/{app_id}/plans', { path })) {
      if (plan.code === code) return plan
    }
    return undefined
  }

  /** Creates or restores the plan if necessary, and returns its id. */
  async function plan(code: TriggerPlan): Promise<string> {
    const found = await findPlan(code)
    if (found === undefined) {
      const trial = code === 'licensing-trigger-trial' && { trial_days: 1 }
      const body = { code, name: 'Of licensing trigger', ...trial }
      const made = await backend
        .post('/v1/apps/{app_id}/plans', { path, body })
        .catch(async (error: unknown) => {
          const other = isCode(error, 'already_exists') ? await findPlan(code) : undefined
          if (other === undefined) throw error
          return other
        })
      return made.id
    }
    const at = { path: { ...path, plan_id: found.id } }
    if (found.status === 'retired') await backend.post('/v1/apps/{app_id}/plans/{plan_id}/restore', at)
    return found.id
  }

  const issue = async (expiresOn?: Date) =>
    (
      await backend.post('/v1/apps/{app_id}/licences', {
        path,
        body: {
          external_ref: reference(),
          plan_id: await plan('licensing-trigger'),
          ...(expiresOn && { expires_on: expiresOn.toISOString() }),
        },
        idempotencyKey: newIdempotencyKey(),
      })
    ).id

  const move = (verb: Schemas['LicenceDetail']['allowed'][number], licenceId: string) =>
    backend.post(`/v1/licences/{licence_id}/${verb}`, { path: { licence_id: licenceId } })

  const noticeDays = async () => (await backend.get('/v1/apps/{app_id}', { path })).expiring_notice_days

  /** Gives a licence another value of an entitlement. */
  async function override(licenceId: string): Promise<void> {
    const at = { licence_id: licenceId }
    const { entitlements } = await backend.get('/v1/licences/{licence_id}', { path: at })
    const [first] = entitlements
    if (first === undefined) {
      throw new Refusal('cannot_trigger', 'the application has no entitlement that could be changed')
    }
    const { key, kind, value } = first
    const other = kind === 'feature' ? String(value !== 'true') : value === '1' ? '2' : '1'
    await backend.put('/v1/licences/{licence_id}/overrides/{key}', {
      path: { ...at, key },
      body: { value: other },
    })
  }

  /** Starts a trial as a product does, on a machine that does not exist. */
  async function startTrial(): Promise<string> {
    await plan('licensing-trigger-trial')
    const product = new LicenceClient({
      baseUrl,
      appId,
      rootKey: 'unpinned',
      fingerprint: reference(),
      host: 'licensing-trigger',
      productVersion: '1',
      background: false,
    })
    for (const end = Date.now() + SETTLE_MS; ; await pause(200)) {
      const { licenceId, reason, problem } = await product.startTrial('licensing-trigger-trial')
      if (licenceId !== null) return licenceId
      // Licensing may not have a new plan yet.
      if (reason === 'unknown_plan' && Date.now() < end) continue
      throw new Refusal('not_provisioned', `no trial was started: ${problem?.detail ?? reason}`)
    }
  }

  /** Reports a sale of another shop, without a payment processor. */
  async function sell(code: TriggerPlan, customer = reference()) {
    const { licence_id: licenceId } = await backend.post('/v1/apps/{app_id}/sale-events', {
      path,
      body: {
        sale_id: reference(),
        external_ref: customer,
        plan_id: await plan(code),
        ...price,
        occurred_at: new Date().toISOString(),
      },
    })
    if (licenceId === null) throw new Refusal('not_provisioned', 'the sale provisioned no licence')
    return { licenceId, customer }
  }

  function simulator() {
    if (simulatorUrl !== undefined) return createSimulator(simulatorUrl)
    throw new Refusal(
      'simulator_required',
      'payment events need the simulated payment processor: set LICENSING_SIMULATOR_URL to the address that npm start prints',
    )
  }

  async function connect(): Promise<void> {
    try {
      const { livemode } = await backend.get('/v1/processor')
      if (livemode)
        throw new Refusal(
          'processor_is_live',
          'the account is connected to a real payment processor: nothing was done',
        )
    } catch (error) {
      // A key of one application must not ask this. If no processor is connected, opening the checkout reports it.
      if (isCode(error, 'insufficient_scope')) return
      if (!isCode(error, 'not_found')) throw error
      const { account_id: account } = await backend.get('/v1/api-keys/self')
      const body = {
        processor: 'stripe',
        connected_account: account.replace('acct_', 'acct_trigger_'),
      } as const
      await backend.put('/v1/processor', { body })
    }
  }

  async function openCheckout(code: TriggerPlan) {
    const pay = simulator()
    await connect()
    const planId = await plan(code)
    const body = { price_id: `price_${planId}`, mode: 'payment', ...price } as const
    await backend.put('/v1/apps/{app_id}/plans/{plan_id}/price', { path: { ...path, plan_id: planId }, body })
    const session = await backend.post('/v1/apps/{app_id}/checkout-sessions', {
      path,
      body: {
        plan_id: planId,
        external_ref: reference(),
        success_url: 'https://shop.example.com/thanks',
        cancel_url: 'https://shop.example.com/cart',
      },
    })
    // The last part of the checkout URL is the processor's id of the session.
    const ofProcessor = new URL(session.url).pathname.split('/').at(-1)
    return {
      id: session.id,
      planId,
      pay: () => pay('pay', { session: ofProcessor }),
      refund: (amount?: number) => pay('refund', { charge: ofProcessor, ...(amount && { amount }) }),
    }
  }

  async function untilProvisioned(sessionId: string): Promise<string> {
    for (const end = Date.now() + SETTLE_MS; Date.now() < end; await pause(200)) {
      const {
        licence_id: licenceId,
        status,
        reason,
      } = await backend.get('/v1/apps/{app_id}/checkout-sessions/{session_id}', {
        path: { ...path, session_id: sessionId },
      })
      if (licenceId !== null) return licenceId
      if (status === 'provision_failed')
        throw new Refusal('not_provisioned', `no licence was provisioned: ${reason}`)
    }
    throw new Refusal('not_provisioned', 'the payment did not reach the licensing service in time')
  }

  /** Opens a checkout and pays for it. Returns the licence, and a function that refunds the payment. */
  async function buy() {
    const { id, pay, refund } = await openCheckout('licensing-trigger')
    await pay()
    return { licenceId: await untilProvisioned(id), refund }
  }

  const archive = (planId: string) =>
    backend.post('/v1/apps/{app_id}/plans/{plan_id}/archive', { path: { ...path, plan_id: planId } })

  /** Sends a test event to one of the application's endpoints, and returns the id of the event. */
  async function testEndpoint(): Promise<string> {
    for await (const { id, status } of backend.rows('/v1/apps/{app_id}/webhook-endpoints', { path })) {
      if (status !== 'enabled') continue
      const at = { path: { ...path, endpoint_id: id } }
      return (await backend.post('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}/test', at)).event_id
    }
    throw new Refusal(
      'cannot_trigger',
      'webhook.test needs a webhook endpoint: the application has none that is enabled',
    )
  }

  return { issue, move, noticeDays, override, startTrial, sell, buy, openCheckout, archive, testEndpoint }
}

const isCode = (error: unknown, code: string) => error instanceof LicensingApiError && error.code === code

/** An action of the simulated payment processor; returns the object that it changed. */
type Simulator = (action: 'pay' | 'refund', body: Readonly<Record<string, unknown>>) => Promise<unknown>

/** @throws Refusal if the server is no simulator, or refuses the action */
function createSimulator(address: URL): Simulator {
  return async (action, body) => {
    const response = await fetch(new URL(`_sim/${action}`, address.href.replace(/\/*$/, '/')), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(15_000),
    }).catch(() => {
      throw new Refusal(
        'simulator_unavailable',
        `nothing answers at ${address.href} (LICENSING_SIMULATOR_URL)`,
      )
    })
    if (!response.headers.has('x-simulated')) {
      throw new Refusal(
        'not_a_simulator',
        `the server at ${address.href} (LICENSING_SIMULATOR_URL) is not the simulator`,
      )
    }
    const text = await response.text()
    if (!response.ok) throw new Refusal('simulator_refused', `the simulator refused to ${action}: ${text}`)
    return JSON.parse(text) as unknown
  }
}
