import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import type { Logger } from '@licensing/process/log'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { randomBytes } from 'node:crypto'
import type { AdmissionDependencies } from '../admission/admit.ts'
import { isOfOwnPage, isOverTls } from '../admission/sessions.ts'
import { authorizedPath } from '../routes/processor/processor-routes.ts'
import { answers, formOf, sentence, statusOf, textsOf } from './decision.ts'
import { escapeHtml, page } from './html.ts'

const processor = 'stripe'
const cookieName = 'licensing_authorization'
const cookieSeconds = 900
/** The portal's page with the processor's settings (portal/src/pages/settings/processor.tsx). */
const portalPath = '/portal/settings'

/**
 * The page to which the payment processor sends a vendor's browser back. It shows the vendor account and the processor
 * account, and connects them after a click on this page in the same browser.
 */
export function mountAuthorizedPage(
  scope: FastifyInstance,
  admission: AdmissionDependencies,
  log: Logger,
): void {
  const { billing } = admission.services
  const answer = answers(admission, log, refusal)
  scope.route({
    method: 'GET',
    url: authorizedPath,
    // A request for the page uses the state up, so HEAD is not supported.
    exposeHeadRoute: false,
    handler: (request, reply) =>
      answer(request, reply, async () => {
        const { state, code } = textsOf(request.query)
        if (state === undefined) throw new ServiceError('bad_request', 'the link has no state parameter')
        const browser = randomBytes(32).toString('base64url')
        const received = await billing.receiveProcessorAuthorization({ processor, state, code, browser })
        reply.header('set-cookie', cookie(admission, request, browser, cookieSeconds))
        return page(
          'Connect this account?',
          `${named(received)}
<p>Payments for this vendor account’s plans will go to that Stripe account. If you did not begin this, close the page.</p>
<form method="post" action="${authorizedPath}">
<input type="hidden" name="confirmation" value="${escapeHtml(received.confirmation)}">
<button>Connect</button>
</form>
${wayBack('', 'Back to the portal, without connecting')}`,
        )
      }),
  })
  scope.route({
    method: 'POST',
    url: authorizedPath,
    bodyLimit: 4096,
    handler: (request, reply) =>
      answer(request, reply, async () => {
        // A form of another site does not send the cookie (SameSite). In addition the origin is checked.
        if (!isOfOwnPage(request, admission.publicUrl)) {
          throw new ServiceError('bad_request', 'this request was sent from another origin')
        }
        const confirmation = formOf(request).get('confirmation') ?? ''
        const browser = cookieOf(request)
        const confirmed = await billing.confirmProcessorAuthorization({ processor, confirmation, browser })
        reply.header('set-cookie', cookie(admission, request, '', 0))
        const query = `?connected=${encodeURIComponent(confirmed.connectedAccount)}`
        return page(
          'Connected',
          `${named(confirmed)}
<p>Payments for this vendor account’s plans go to that Stripe account from now on.</p>
${wayBack(query, 'Back to the portal')}`,
        )
      }),
  })
}

function refusal(error: ServiceError): string {
  const isCallers = statusOf(error) === 400
  const { remedy } = errorCatalogue[error.code]
  return page(
    'Not connected',
    `<p role="alert">${escapeHtml(sentence(isCallers ? error.message : `${error.message}. ${remedy}`))}</p>
${isCallers ? '<p>Nothing was connected.</p>' : ''}
${wayBack('', 'Back to the portal, to begin again')}`,
  )
}

function wayBack(query: string, text: string): string {
  return `<p><a href="${portalPath}${query}#processor">${text}</a></p>`
}

function named(whose: { accountName: string; accountId: string; connectedAccount: string }): string {
  const { accountName, accountId, connectedAccount } = whose
  return `<dl>
<dt>Vendor account</dt>
<dd><bdi>${escapeHtml(accountName)}</bdi> <code>${escapeHtml(accountId)}</code></dd>
<dt>Stripe account</dt>
<dd><code>${escapeHtml(connectedAccount)}</code></dd>
</dl>`
}

function cookie(
  { publicUrl }: AdmissionDependencies,
  request: FastifyRequest,
  value: string,
  seconds: number,
): string {
  const secure = isOverTls(request, publicUrl) ? '; Secure' : ''
  return `${cookieName}=${value}; Path=${authorizedPath}; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure}`
}

function cookieOf({ headers }: FastifyRequest): string {
  const pairs = (headers.cookie ?? '').split(';').map((pair) => pair.trim().split('='))
  return pairs.find(([name]) => name === cookieName)?.[1] ?? ''
}
