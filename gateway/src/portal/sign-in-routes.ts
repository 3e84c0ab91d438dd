import { ServiceError } from '@licensing/grpc/errors'
import type { Logger } from '@licensing/process/log'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { hash, randomBytes } from 'node:crypto'
import { z } from 'zod'
import { ownUrlOf } from '../admission/admit.ts'
import type { AdmissionDependencies } from '../admission/admit.ts'
import { limitKeyOf } from '../admission/client-address.ts'
import { asServiceError } from '../http/problem.ts'
import { formOf, sentence, statusOf, textsOf } from '../pages/decision.ts'
import { escapeHtml, page, pageHeaders } from '../pages/html.ts'
import type { IdentityProvider, Person } from './identity-provider.ts'

export const signInPaths = {
  begin: '/portal/sign-in',
  signedIn: '/portal/signed-in',
  options: '/portal/sign-in-options',
  choose: '/portal/choose-account',
} as const

const portalPath = '/portal'
const validMs = 10 * 60_000
const maxReturnLength = 1_000
const browserCookie = 'portal_browser'

/** The content of a `state`. The service stores none; it remembers those that came back. */
const startedSchema = z.strictObject({
  nonce: z.string(),
  verifier: z.string(),
  /** SHA-256 of the cookie of the browser that started. */
  browser: z.string(),
  returnTo: z.string(),
})

/** The content of the form on the page "Choose an account". */
const choiceSchema = z.strictObject({
  person: z.strictObject({
    issuer: z.string(),
    subject: z.string(),
    verifiedEmail: z.string().optional(),
    name: z.string().optional(),
  }),
  browser: z.string(),
  returnTo: z.string(),
})

/** The sign-in of people at an identity provider (docs/guides/people.md, "How a sign-in works"). */
export function mountSignIn(
  scope: FastifyInstance,
  admission: AdmissionDependencies,
  provider: IdentityProvider | undefined,
  log: Logger,
): void {
  const { sessions, services, throttle } = admission
  // Read by the portal's sign-in page.
  scope.get(signInPaths.options, (_request, reply) =>
    reply.header('cache-control', 'no-store').send({ name: provider?.name ?? null }),
  )
  if (!provider) return
  const pages = pagesOf(provider)

  const answer =
    (work: (request: FastifyRequest, reply: FastifyReply) => Promise<FastifyReply>) =>
    async (request: FastifyRequest, reply: FastifyReply) => {
      try {
        throttle.product(reply, limitKeyOf(request.ip))
        return await work(request, reply)
      } catch (thrown) {
        const error = asServiceError(thrown)
        if (error.code === 'internal') log.error({ err: thrown, request_id: request.id }, 'request failed')
        else log.info({ reason: reasonOf(error), request_id: request.id }, 'a sign-in was refused')
        return reply.code(statusOf(error)).headers(pages.headers).send(pages.failed(error))
      }
    }

  scope.route({
    method: 'GET',
    url: signInPaths.begin,
    exposeHeadRoute: false,
    handler: answer(async (request, reply) => {
      const browser = sessions.cookieOf(request, browserCookie) ?? randomBytes(32).toString('base64url')
      const secrets = { nonce: randomText(), verifier: randomText() }
      const returnTo = returnToOf(textsOf(request.query)['return_to'])
      const started = { ...secrets, browser: hashOf(browser), returnTo } satisfies z.input<
        typeof startedSchema
      >
      const state = sessions.encrypt(JSON.stringify(started), 'sign-in', Date.now() + validMs)
      const address = await provider.beginAt(ownUrlOf(admission, request) + signInPaths.signedIn, {
        state,
        ...secrets,
      })
      sessions.setCookie(request, reply, browserCookie, browser, validMs / 1000, 'Lax')
      return redirect(reply, address.href)
    }),
  })

  scope.route({
    method: 'GET',
    url: signInPaths.signedIn,
    // A request for the page uses the state up, so HEAD is not supported.
    exposeHeadRoute: false,
    handler: answer(async (request, reply) => {
      const { state = '' } = textsOf(request.query)
      const started = readOf(startedSchema, sessions.decrypt(state, 'sign-in'))
      checkBrowser(request, started)
      await services.catalog.useSignInState({ stateHash: hash('sha256', state, 'buffer') })
      const url = new URL(ownUrlOf(admission, request) + request.url)
      const person = await provider.personAt(url, { state, ...started })
      const { members } = await services.catalog.findMembersOfPerson({ person })
      if (members.length > 1) {
        const choice = { person, browser: started.browser, returnTo: started.returnTo }
        const token = sessions.encrypt(JSON.stringify(choice), 'choice', Date.now() + validMs)
        return reply.headers(pages.headers).send(pages.choose(members, token))
      }
      return signIn(request, reply, { person, memberId: members[0]?.memberId, returnTo: started.returnTo })
    }),
  })

  scope.route({
    method: 'POST',
    url: signInPaths.choose,
    bodyLimit: 16_384,
    handler: answer(async (request, reply) => {
      sessions.refuseForeignOrigin(request)
      const form = formOf(request)
      const choice = readOf(choiceSchema, sessions.decrypt(form.get('choice') ?? '', 'choice'))
      checkBrowser(request, choice)
      return signIn(request, reply, { ...choice, memberId: form.get('member') ?? undefined })
    }),
  })

  function checkBrowser(request: FastifyRequest, { browser }: { browser: string }): void {
    const cookie = sessions.cookieOf(request, browserCookie)
    if (cookie === undefined || hashOf(cookie) !== browser) {
      throw new ServiceError('bad_request', 'this sign-in was started in another browser')
    }
  }

  interface Wanted {
    person: Person
    memberId: string | undefined
    returnTo: string
  }

  async function signIn(request: FastifyRequest, reply: FastifyReply, wanted: Wanted): Promise<FastifyReply> {
    const { person, memberId, returnTo } = wanted
    try {
      if (memberId === undefined) throw new ServiceError('unauthenticated', 'nobody has invited this person')
      const member = await services.catalog.signIn({ memberId, person })
      sessions.begin(request, reply, member.id)
      return redirect(reply, returnTo)
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== 'unauthenticated') throw error
      return reply.code(403).headers(pages.headers).send(pages.refused(person))
    }
  }
}

function pagesOf({ name, scheme }: IdentityProvider) {
  const shown = escapeHtml(name)
  const button = `<form action="${signInPaths.begin}"><button>Sign in with ${shown}</button></form>`
  return {
    headers: {
      ...pageHeaders,
      // Browsers apply this to the redirects after the button too, and the provider may redirect to others.
      'content-security-policy': pageHeaders['content-security-policy']!.replace(
        "form-action 'self'",
        `form-action 'self' ${scheme}`,
      ),
      'referrer-policy': 'same-origin',
    },
    failed: (error: ServiceError) =>
      page(
        'Sign-in failed',
        error.code === 'unavailable'
          ? `<p role="alert">${shown} cannot be reached, or this service cannot be used at the moment. Try again in a minute.</p>\n${button}`
          : `<p role="alert">${escapeHtml(sentence(error.message))} Nobody was signed in. Try again.</p>\n${button}`,
      ),
    refused: ({ verifiedEmail }: Pick<Person, 'verifiedEmail'>) =>
      page(
        'No access',
        verifiedEmail === undefined
          ? `<p role="alert">${shown} has not said that your e-mail address is verified.</p>
<p>Ask the administrators of ${shown} to verify it, then sign in again.</p>\n${button}`
          : `<p role="alert">You are not a member of an account here with the address <bdi>${escapeHtml(verifiedEmail)}</bdi>.</p>
<p>Ask an owner of your company’s account to add this address in the portal, under “Settings”, “Members”. If you were a member with another identity of ${shown}, ask to be removed and added again.</p>\n${button}`,
      ),
    choose: (members: readonly { memberId: string; accountName: string }[], choice: string) =>
      page(
        'Choose an account',
        `<p>You are a member of several accounts. Which one do you want to open?</p>
<form method="post" action="${signInPaths.choose}">
<input type="hidden" name="choice" value="${choice}">
${members
  .map(
    ({ memberId, accountName }) =>
      `<button name="member" value="${memberId}"><bdi>${escapeHtml(accountName)}</bdi></button>`,
  )
  .join('\n')}
</form>`,
      ),
  }
}

/** The texts of an error and its causes. Not the error itself, which can contain a token or an address. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return ''
  const { error: code, cause } = error as { error?: unknown; cause?: unknown }
  return [error.message, typeof code === 'string' ? code : '', reasonOf(cause)]
    .filter((text) => text !== '')
    .join(': ')
}

function redirect(reply: FastifyReply, address: string): FastifyReply {
  return reply.code(303).header('cache-control', 'no-store').header('location', address).send()
}

const randomText = () => randomBytes(32).toString('base64url')
const hashOf = (text: string) => hash('sha256', text, 'base64url')

function readOf<S extends z.ZodType>(schema: S, text: string | undefined): z.output<S> {
  if (text === undefined) {
    throw new ServiceError('bad_request', 'this sign-in has expired, or its address was changed')
  }
  return schema.parse(JSON.parse(text))
}

/** The page of the portal that is shown after the sign-in. An address of another page is ignored. */
function returnToOf(text: string | undefined): string {
  const own = 'http://portal.invalid'
  if (text === undefined || text.length > maxReturnLength || !text.startsWith('/')) return portalPath
  const url = URL.parse(text, own)
  const isPortal =
    url?.origin === own && (url.pathname === portalPath || url.pathname.startsWith(`${portalPath}/`))
  return isPortal ? url.pathname + url.search + url.hash : portalPath
}
