import type { FastifyInstance, FastifyReply } from 'fastify'
import { authenticate, authorize, deauthorize, isConnected } from '../api/accounts.ts'
import type { Control } from '../control/control.ts'
import { parseForm } from '../http/params.ts'
import { StripeError } from '../http/stripe-error.ts'
import { newId, platformApplication } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { html, layout, sendPage } from './layout.ts'

const codeSeconds = 300

type Fields = Record<string, string>
type Refusal = [status: number, error: string, description: string]

/** Connect's OAuth: the consent page, the exchange of its code, and the end of the access. */
export function serveOauth(server: FastifyInstance, { world, changed }: Control): void {
  server.get('/oauth/authorize', (request, reply) => {
    const query = fieldsOf(request.query)
    const wrong = problemOf(query)
    return wrong === undefined ? sendPage(reply, consentPage(query)) : refuse(reply, wrong)
  })

  server.post('/oauth/authorize', (request, reply) => {
    const form = fieldsOf(request.body)
    const wrong = problemOf(form)
    if (wrong !== undefined) return refuse(reply, wrong)
    const back = new URL(form['redirect_uri'] ?? '')
    if (form['state'] !== undefined) back.searchParams.set('state', form['state'])
    const account = form['account'] ?? ''
    if (form['consent'] !== 'given') {
      back.searchParams.set('error', 'access_denied')
      back.searchParams.set('error_description', 'The user denied your request')
      return reply.redirect(back.href, 303)
    }
    if (world.deauthorized.has(account)) authorize(world, account)
    if (!isConnected(world, account)) {
      return refuse(reply, [400, 'invalid_request', `There is no account ${account}`])
    }
    back.searchParams.set('scope', form['scope'] ?? 'read_only')
    back.searchParams.set('code', newCode(world, account))
    changed()
    return reply.redirect(back.href, 303)
  })

  server.post('/oauth/token', (request, reply) => {
    const form = fieldsOf(request.body)
    const wrong = refusedKey(world, request.headers)
    if (wrong !== undefined) return refuse(reply, wrong)
    if (form['grant_type'] !== 'authorization_code') {
      return refuse(reply, [400, 'unsupported_grant_type', 'Only authorization_code is here'])
    }
    const consent = takeConsent(world, form['code'] ?? '')
    if (consent === undefined) {
      const description = `Authorization code does not exist, expired, or was used already: ${form['code']}`
      return refuse(reply, [400, 'invalid_grant', description])
    }
    return reply.send({
      access_token: newId('sk_test'),
      livemode: false,
      refresh_token: newId('rt'),
      scope: 'read_write',
      stripe_publishable_key: newId('pk_test'),
      stripe_user_id: consent.account,
      token_type: 'bearer',
    })
  })

  server.post('/oauth/deauthorize', (request, reply) => {
    const { client_id: clientId, stripe_user_id: account = '' } = fieldsOf(request.body)
    const wrong = refusedKey(world, request.headers)
    if (wrong !== undefined) return refuse(reply, wrong)
    if (clientId !== platformApplication || !isConnected(world, account)) {
      return refuse(reply, [401, 'invalid_client', `This application is not connected to ${account}`])
    }
    deauthorize(world, account)
    changed()
    return reply.send({ stripe_user_id: account })
  })
}

function newCode({ consents, clock }: World, account: string): string {
  const code = newId('ac')
  consents.set(code, { account, expires_at: clock.now() + codeSeconds })
  return code
}

function takeConsent({ consents, clock }: World, code: string) {
  const consent = consents.get(code)
  consents.delete(code)
  return consent && consent.expires_at > clock.now() ? consent : undefined
}

function problemOf(query: Fields): Refusal | undefined {
  if (query['client_id'] !== platformApplication) {
    return [400, 'invalid_client', `No application matches client_id ${query['client_id']}`]
  }
  if (query['response_type'] !== 'code') return [400, 'unsupported_response_type', 'Only code is here']
  if (!/^https?:\/\/[^/]/.test(query['redirect_uri'] ?? '') || !URL.canParse(query['redirect_uri'] ?? '')) {
    return [400, 'invalid_redirect_uri', 'redirect_uri is not an http or https URL']
  }
  return undefined
}

function refusedKey(world: World, headers: Parameters<typeof authenticate>[1]): Refusal | undefined {
  try {
    authenticate(world, headers)
    return undefined
  } catch (error) {
    if (error instanceof StripeError) return [error.status, 'invalid_client', error.message]
    throw error
  }
}

function refuse(reply: FastifyReply, [status, error, description]: Refusal): FastifyReply {
  return reply.code(status).send({ error, error_description: description })
}

function fieldsOf(given: unknown): Fields {
  const form = typeof given === 'string' ? parseForm(given) : Object(given)
  const texts = Object.entries(form as object).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  )
  return Object.fromEntries(texts)
}

/** The page on which a vendor gives the platform access to an account. @param query the parameters of the request */
function consentPage(query: Record<string, string>): string {
  const body = html`<section class="card pay">
    <p class="small">Licensing Platform (simulated) asks for access to your account</p>
    <form method="post" action="/oauth/authorize">
      ${Object.entries(query).map(
        ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
      )}
      <label>Account <input name="account" value="${newId('acct')}" pattern="acct_[A-Za-z0-9_]+" /></label>
      <button class="main" name="consent" value="given">Give access</button>
      <button name="consent" value="denied">Refuse</button>
    </form>
  </section>`
  return layout('Connect', body)
}
