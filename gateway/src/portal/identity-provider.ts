import { ServiceError } from '@licensing/grpc/errors'
import { firstCharacters, isStorable, problemOfText, textLimits } from '@licensing/proto/text'
import * as client from 'openid-client'

/** An identity provider at which people sign in to the portal. */
export interface IdentityProviderSettings {
  issuer: string
  clientId: string
  clientSecret: string
  /** For the button "Sign in with NAME". */
  name: string
}

/** The secrets of a sign-in, which its answer must match. */
export interface SignInSecrets {
  state: string
  nonce: string
  verifier: string
}

/** A person, as the provider has authenticated it. */
export interface Person {
  issuer: string
  subject: string
  verifiedEmail?: string | undefined
  name?: string | undefined
}

/** For all requests that one step of a sign-in makes, together. */
const timeoutMs = 10_000
// Documents of large providers have about 10 KiB.
const maxAnswerBytes = 256 * 1024

/**
 * The provider's document and keys are read again for each sign-in. Sign-ins are rare, and a change at the provider counts at once.
 */
export class IdentityProvider {
  readonly name: string
  /** Forms of pages with the sign-in button may lead there (`form-action`). */
  readonly scheme: string
  readonly #settings: IdentityProviderSettings

  constructor(settings: IdentityProviderSettings) {
    this.name = settings.name
    this.scheme = new URL(settings.issuer).protocol
    this.#settings = settings
  }

  /**
   * The address at the provider to which a browser is sent.
   *
   * @throws ServiceError `unavailable`
   */
  async beginAt(redirectUri: string, { state, nonce, verifier }: SignInSecrets): Promise<URL> {
    const challenge = await client.calculatePKCECodeChallenge(verifier)
    return this.#ask((configuration) =>
      client.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        scope: 'openid email profile',
        state,
        nonce,
        code_challenge: challenge,
        code_challenge_method: 'S256',
      }),
    )
  }

  /**
   * The person who came back from the provider.
   *
   * @param url the whole address to which the browser came back
   * @throws ServiceError `bad_request` if the provider refuses or its answer is not valid, `unavailable` if it does not answer
   */
  async personAt(url: URL, { state, nonce, verifier }: SignInSecrets): Promise<Person> {
    return this.#ask(async (configuration) => {
      const tokens = await client.authorizationCodeGrant(configuration, url, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      })
      const claims = tokens.claims()!
      if (problemOfText(claims.sub, textLimits.reference))
        throw new Error('the sub of the ID token is not valid')
      let about: Record<string, unknown> = claims
      if (claims['email'] === undefined || isVerified(claims) === undefined) {
        if (configuration.serverMetadata().userinfo_endpoint !== undefined) {
          about = await client.fetchUserInfo(configuration, tokens.access_token, claims.sub)
        }
      }
      const email = about['email']
      const name = nameOf(claims) ?? nameOf(about)
      return {
        issuer: claims.iss,
        subject: claims.sub,
        ...(isVerified(about) === true &&
          typeof email === 'string' &&
          problemOfText(email, textLimits.emailAddress) === undefined && { verifiedEmail: email }),
        ...(name !== undefined && { name }),
      }
    })
  }

  async #ask<T>(work: (configuration: client.Configuration) => T | Promise<T>): Promise<T> {
    const { issuer, clientId, clientSecret } = this.#settings
    const { fetch, failure } = boundedFetch()
    let configuration: client.Configuration
    try {
      configuration = await client.discovery(
        new URL(issuer),
        clientId,
        undefined,
        authenticate(clientSecret),
        {
          [client.customFetch]: fetch,
          // Without it the signature of the ID token is not verified.
          execute: [
            client.enableNonRepudiationChecks,
            ...(this.scheme === 'http:' ? [client.allowInsecureRequests] : []),
          ],
        },
      )
    } catch (error) {
      throw unavailable(failure() ?? error)
    }
    try {
      return await work(configuration)
    } catch (error) {
      if (failure() !== undefined) throw unavailable(failure())
      throw new ServiceError(
        'bad_request',
        `the sign-in was refused, or the answer of ${this.name} is not valid`,
        {
          cause: error,
        },
      )
    }
  }
}

function unavailable(cause: unknown): ServiceError {
  return new ServiceError('unavailable', 'the identity provider does not answer as it should', { cause })
}

/** The usual method of a client is `client_secret_basic`. The other one is used if the provider's document does not list it. */
function authenticate(secret: string): client.ClientAuth {
  const [basic, post] = [client.ClientSecretBasic(secret), client.ClientSecretPost(secret)]
  return (server, ...rest) => {
    const methods = server.token_endpoint_auth_methods_supported
    const isPost =
      methods !== undefined &&
      !methods.includes('client_secret_basic') &&
      methods.includes('client_secret_post')
    return (isPost ? post : basic)(server, ...rest)
  }
}

/**
 * A `fetch` whose requests end together after `timeoutMs`, and whose answers have a limited size. `failure` returns why there
 * was no answer.
 */
function boundedFetch(): { fetch: client.CustomFetch; failure: () => unknown } {
  const signal = AbortSignal.timeout(timeoutMs)
  let failure: unknown
  return {
    failure: () => failure,
    fetch: async (url, { body, headers, method, redirect }) => {
      let bytes: Buffer
      let answer: Response
      try {
        answer = await fetch(url, { headers, method, redirect, signal, body: body as never })
        bytes = await readLimited(answer)
      } catch (error) {
        failure ??= error
        throw error
      }
      if (bytes.length > maxAnswerBytes) throw new Error('the answer is too large')
      return new Response(bytes.length > 0 ? new Uint8Array(bytes) : null, {
        status: answer.status,
        headers: answer.headers,
      })
    },
  }
}

/** The body, or its beginning if it is larger than allowed. */
async function readLimited({ body }: Response): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let length = 0
  // Leaving the loop cancels the rest.
  for await (const chunk of body ?? []) {
    chunks.push(chunk)
    length += chunk.length
    if (length > maxAnswerBytes) break
  }
  return Buffer.concat(chunks)
}

/**
 * Whether the provider calls the address verified; undefined if it does not say. Entra has no `email_verified`, but `xms_edov`: the
 * owner of the address's domain has verified it.
 */
function isVerified({
  email_verified: verified,
  xms_edov: edov,
}: Record<string, unknown>): boolean | undefined {
  if (verified !== undefined) return verified === true
  return edov === undefined ? undefined : edov === true || edov === 1 || edov === '1'
}

function nameOf({ name }: Record<string, unknown>): string | undefined {
  if (typeof name !== 'string' || !isStorable(name)) return undefined
  const shown = firstCharacters(name.replaceAll(/\p{Cc}+/gu, ' ').trim(), textLimits.name.max)
  return shown === '' ? undefined : shown
}
