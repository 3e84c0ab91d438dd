import { listenAddress, processConfig, readConfig } from '@licensing/process/config'
import { defineProgram } from '@licensing/process/run'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { interactionPolicy, Provider } from 'oidc-provider'
import type { Account, AccountClaims } from 'oidc-provider'
import { z } from 'zod'

const config = z.object({
  ...processConfig,
  HTTP_ADDRESS: listenAddress.describe('host:port to listen on; port 0 picks a free one'),
  OIDC_CLIENT_ID: z.string().describe('the only client'),
  OIDC_CLIENT_SECRET: z.string().describe('its secret'),
  OIDC_REDIRECT_URI: z.url().describe('the address to which people return'),
})

/**
 * An identity provider to try the portal's sign-in with, and for tests. It asks for no password and believes every address. It
 * keeps everything in memory.
 */
export const program = defineProgram(
  'identity-provider',
  (env) => readConfig(config, env),
  async ({ log, onStop }, settings) => {
    const { host, port } = settings.HTTP_ADDRESS
    const server = createServer()
    server.listen(port, host)
    await once(server, 'listening')
    onStop('http server', () => {
      server.close().closeAllConnections()
    })
    const url = `http://${host}:${(server.address() as AddressInfo).port}`
    const provider = makeProvider(url, settings)
    const answer = provider.callback()
    server.on('request', (request, response) => {
      const path = request.url?.split('?', 1)[0] ?? ''
      if (path === '/healthz') return void response.end('ok')
      if (!path.startsWith('/interaction/')) return void answer(request, response)
      interact(provider, request, response).catch((error: unknown) => {
        log.warn({ err: error }, 'the sign-in failed')
        response.writeHead(400).end('This sign-in has ended. Begin it again.')
      })
    })
    log.info({ url }, 'listening')
  },
)

const seconds = 600

interface Settings {
  OIDC_CLIENT_ID: string
  OIDC_CLIENT_SECRET: string
  OIDC_REDIRECT_URI: string
}

function makeProvider(issuer: string, settings: Settings): Provider {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return new Provider(issuer, {
    clients: [
      {
        client_id: settings.OIDC_CLIENT_ID,
        client_secret: settings.OIDC_CLIENT_SECRET,
        redirect_uris: [settings.OIDC_REDIRECT_URI],
      },
    ],
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' }] },
    cookies: { keys: [randomBytes(32).toString('hex')] },
    claims: { email: ['email', 'email_verified'], profile: ['name'] },
    ttl: {
      AccessToken: seconds,
      AuthorizationCode: seconds,
      Grant: seconds,
      IdToken: seconds,
      Interaction: seconds,
      Session: seconds,
    },
    features: { devInteractions: { enabled: false } },
    interactions: { policy: askingEachTime(), url: (_context, { uid }) => `/interaction/${uid}` },
    findAccount: (_context, accountId) => accountOf(accountId),
    // Nobody is asked whether the service may know the address and the name.
    loadExistingGrant: async ({
      oidc: {
        client,
        session,
        provider: { Grant },
      },
    }) => {
      if (!client || !session?.accountId) return undefined
      const grant = new Grant({ clientId: client.clientId, accountId: session.accountId })
      grant.addOIDCScope('openid email profile')
      await grant.save()
      return grant
    },
  })
}

/** Otherwise a browser would stay signed in here, and could not try another person. */
function askingEachTime(): interactionPolicy.DefaultPolicy {
  const { base, Check } = interactionPolicy
  const policy = base()
  const always = new Check('each_time', 'everybody is asked each time', 'login_required', ({ oidc }) =>
    oidc.result?.login ? Check.NO_NEED_TO_PROMPT : Check.REQUEST_PROMPT,
  )
  policy.get('login')!.checks.add(always)
  return policy
}

/** The name that a person gave last, by address. */
const names = new Map<string, string>()

/** The id of an account is the person's address. */
function accountOf(email: string): Account {
  const name = names.get(email)
  const claims = (): AccountClaims => ({ sub: email, email, email_verified: true, ...(name && { name }) })
  return { accountId: email, claims }
}

async function interact(
  provider: Provider,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (request.method !== 'POST') {
    await provider.interactionDetails(request, response)
    response.setHeader('content-type', 'text/html; charset=utf-8')
    return void response.end(page)
  }
  const form = new URLSearchParams(await text(request))
  const accountId = form.get('email') ?? ''
  names.set(accountId, form.get('name') ?? '')
  await provider.interactionFinished(request, response, { login: { accountId, remember: false } })
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Simulated identity provider</title>
</head>
<body>
<main>
<h1>Simulated identity provider</h1>
<p>It is for trying: it asks for no password, and believes every address.</p>
<form method="post">
<p><label>E-mail address <input name="email" type="email" required autofocus></label></p>
<p><label>Name <input name="name"></label></p>
<p><button>Sign in</button></p>
</form>
</main>
</body>
</html>
`

if (import.meta.main) program.run()
