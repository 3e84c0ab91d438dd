import type { FastifyInstance, FastifyReply } from 'fastify'
import { authenticate, isConnected } from '../api/accounts.ts'
import { StripeError } from '../api/errors.ts'
import { parseForm } from '../api/forms.ts'
import { newId, platformApplication } from '../ids.ts'
import type { World } from '../world.ts'
import { html, sendPage, type Html } from './html.ts'

type Fields = Record<string, string | undefined>

/** Serves Connect's OAuth: the consent page, and the exchange of its code for the account. */
export function serveConsent(server: FastifyInstance, world: World): void {
  server.get('/oauth/authorize', ({ query }, reply) => {
    const problem = problemOf(query as Fields)
    return problem ? refuse(reply, 400, problem) : sendPage(reply, 'Connect', consentPage(query as Fields))
  })

  server.post('/oauth/authorize', ({ body }, reply) => {
    const form = parseForm(String(body)) as Fields
    const problem = problemOf(form)
    if (problem) return refuse(reply, 400, problem)
    const { account = '' } = form
    const back = new URL(form['redirect_uri']!)
    if (form['state'] !== undefined) back.searchParams.set('state', form['state'])
    if (form['consent'] !== 'given') {
      back.searchParams.set('error', 'access_denied')
      back.searchParams.set('error_description', 'The user denied your request')
      return reply.redirect(back.href, 303)
    }
    world.deauthorized.delete(account)
    if (!isConnected(world, account)) {
      return refuse(reply, 400, ['invalid_request', `There is no account ${account}`])
    }
    const code = newId('ac')
    world.consents.set(code, account)
    back.searchParams.set('scope', form['scope'] ?? 'read_only')
    back.searchParams.set('code', code)
    return reply.redirect(back.href, 303)
  })

  server.post('/oauth/token', ({ headers, body }, reply) => {
    const { code = '' } = parseForm(String(body)) as Fields
    try {
      authenticate(world, headers)
    } catch (error) {
      if (!(error instanceof StripeError)) throw error
      return refuse(reply, error.status, ['invalid_client', error.message])
    }
    const account = world.consents.get(code)
    world.consents.delete(code)
    if (account === undefined) {
      const problem = `Authorization code does not exist, expired, or was used already: ${code}`
      return refuse(reply, 400, ['invalid_grant', problem])
    }
    return reply.send({
      access_token: newId('sk_test'),
      livemode: false,
      refresh_token: newId('rt'),
      scope: 'read_write',
      stripe_publishable_key: newId('pk_test'),
      stripe_user_id: account,
      token_type: 'bearer',
    })
  })
}

type Problem = [error: string, description: string]

function problemOf(query: Fields): Problem | undefined {
  if (query['client_id'] !== platformApplication) {
    return ['invalid_client', `No application matches client_id ${query['client_id']}`]
  }
  if (query['response_type'] !== 'code') return ['unsupported_response_type', 'Only code is here']
  const { redirect_uri: redirect = '' } = query
  if (!/^https?:\/\/[^/]/.test(redirect) || !URL.canParse(redirect)) {
    return ['invalid_redirect_uri', 'redirect_uri is not an http or https URL']
  }
  return undefined
}

function refuse(reply: FastifyReply, status: number, [error, description]: Problem): FastifyReply {
  return reply.code(status).send({ error, error_description: description })
}

/** The page on which a vendor gives the platform access to an account. @param query the parameters of the request */
function consentPage(query: Fields): Html {
  return html`<section class="card pay">
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
}
