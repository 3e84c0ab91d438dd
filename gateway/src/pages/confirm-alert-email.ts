import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import type { Logger } from '@licensing/process/log'
import type { FastifyInstance } from 'fastify'
import { hash } from 'node:crypto'
import type { AdmissionDependencies } from '../admission/admit.ts'
import { answers, formOf, sentence, statusOf, textsOf } from './decision.ts'
import { escapeHtml, page } from './html.ts'

// The mails of services/notifier/src/alerts/send-confirmation.ts link to this path.
const path = '/confirm-alert-email'

/**
 * The page behind the link in a confirmation mail. Mail scanners open links in a browser, so opening the page changes nothing;
 * the reader confirms with a button. A script cannot click, so a request that does not accept HTML confirms at once. The token
 * proves that the caller has the mail, so no login is needed.
 */
export function mountConfirmAlertEmail(
  scope: FastifyInstance,
  admission: AdmissionDependencies,
  log: Logger,
): void {
  const { catalog } = admission.services
  const answer = answers(admission, log, refusal)
  const confirm = async (token: string | undefined) => {
    const confirmed = await catalog.confirmAlertEmail({ tokenHash: hashOf(token) })
    return page('Confirmed', `${described(confirmed)}\n<p>Alerts are sent to this address from now on.</p>`)
  }
  scope.route({
    method: 'GET',
    url: path,
    handler: (request, reply) =>
      answer(request, reply, async () => {
        const { token } = textsOf(request.query)
        const isScript = request.method === 'GET' && !request.headers.accept?.includes('text/html')
        if (isScript) return confirm(token)
        const found = await catalog.findAlertEmailConfirmation({ tokenHash: hashOf(token) })
        return page(
          'Receive alerts?',
          `${described(found)}
<p>Alerts of this account will be sent to this address. If you do not know the account, close the page.</p>
<form method="post" action="${path}">
<input type="hidden" name="token" value="${escapeHtml(token!)}">
<button>Confirm</button>
</form>`,
        )
      }),
  })
  scope.route({
    method: 'POST',
    url: path,
    bodyLimit: 4096,
    handler: (request, reply) =>
      answer(request, reply, () => confirm(formOf(request).get('token') ?? undefined)),
  })
}

function hashOf(token: string | undefined): Uint8Array {
  if (token === undefined || !/^[A-Za-z0-9_-]{43}$/.test(token)) {
    throw new ServiceError('bad_request', 'this link is not complete: copy all of it from the mail')
  }
  return hash('sha256', token, 'buffer')
}

function refusal(error: ServiceError): string {
  const { remedy } = errorCatalogue[error.code]
  const text =
    statusOf(error) === 400
      ? `${sentence(error.message)} To get another mail, set the address again in the portal, on the page Settings.`
      : sentence(`${error.message}. ${remedy}`)
  return page('Not confirmed', `<p role="alert">${escapeHtml(text)}</p>`)
}

function described({ accountId, alertEmail }: { accountId: string; alertEmail: string }): string {
  return `<dl>
<dt>Vendor account</dt>
<dd><code>${escapeHtml(accountId)}</code></dd>
<dt>Address</dt>
<dd>${escapeHtml(alertEmail)}</dd>
</dl>`
}
