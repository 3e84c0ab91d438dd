/** The longest head of a response. */
export const maxHeaderKiB = 64

/** Why an attempt failed, as the delivery log shows it. */
export type FailureReason =
  | 'dns' // the host has no address, or its name servers do not answer; shown as `blocked`
  | 'blocked' // the host leads to an address that deliveries may not go to
  | 'connect' // no TCP connection
  | 'tls' // handshake or certificate
  | 'timeout' // the whole attempt took too long
  | 'reset' // the connection was closed before an answer
  | 'protocol' // the response was not HTTP/1.1
  | 'status' // an answer other than 2xx

/** A failure whose message may be shown to the vendor: it names no address that the vendor did not give. */
export class SendFailure extends Error {
  override name = 'SendFailure'
  readonly reason: FailureReason
  /** Details that the vendor may not see. */
  readonly forOperator: string | null = null

  constructor(reason: FailureReason, message: string, options?: ErrorOptions, forOperator?: string) {
    super(message, options)
    this.reason = reason
    this.forOperator = forOperator ?? null
  }
}

/**
 * One sentence for every host that deliveries may not go to, also for a host that does not exist. Otherwise a vendor could
 * find out which names exist in the operator's network, and to which addresses they resolve.
 */
export function addressFailure(reason: 'dns' | 'blocked', why: string): SendFailure {
  return new SendFailure(reason, 'the host does not resolve to public addresses only', {}, why)
}

const codeOf = (error: Error) => ('code' in error && typeof error.code === 'string' ? error.code : '')

const droppedCodes = new Set(['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'UND_ERR_SOCKET'])

/** Whether the connection was lost. If not, something invalid was received. */
export const isDropped = (error: Error) =>
  droppedCodes.has(codeOf(error)) && !error.message.startsWith('bad ')

const isTlsAlert = (error: Error) => codeOf(error).startsWith('ERR_SSL_')

/** This machine has no file descriptor or memory for another connection. */
const ownCodes = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'])

/** @throws the error itself if the receiver is not its cause: then it does not count as an attempt */
export function connectFailure(error: Error): SendFailure {
  const code = codeOf(error)
  if (ownCodes.has(code)) throw error
  if (code === 'ECONNREFUSED')
    return new SendFailure('connect', 'the connection was refused', { cause: error })
  return new SendFailure('connect', `no connection could be made${code && ` (${code})`}`, { cause: error })
}

export function handshakeFailure(error: Error): SendFailure {
  if (isDropped(error)) {
    return new SendFailure('reset', 'the connection was closed during the TLS handshake', { cause: error })
  }
  const code = codeOf(error)
  return new SendFailure('tls', `the TLS handshake failed${code && ` (${code})`}`, { cause: error })
}

/** The failure of an exchange without a status. `isAnswered`: a part of the response was received. */
export function exchangeFailure(error: Error, isAnswered: boolean): SendFailure {
  if (error instanceof SendFailure) return error
  if (codeOf(error) === 'UND_ERR_INVALID_ARG') throw error // a fault of this service
  if (isDropped(error)) {
    const when = isAnswered ? 'the head of the answer was complete' : 'an answer'
    return new SendFailure('reset', `the connection was closed before ${when}`, { cause: error })
  }
  // With TLS 1.3 a server may reject the handshake after the client has finished it.
  if (isTlsAlert(error)) return handshakeFailure(error)
  return new SendFailure('protocol', `the answer was not valid HTTP/1.1${brokenRule(error)}`, {
    cause: error,
  })
}

/** The rule that the response violates, as the HTTP parser names it. */
function brokenRule(error: Error): string {
  if (codeOf(error) === 'UND_ERR_HEADERS_OVERFLOW') return `: headers of more than ${maxHeaderKiB} KiB`
  if (error.message === 'bad upgrade') return ': 101 Switching Protocols, which was not asked for'
  const [, rule] = /\((.+)\)$/.exec(error.message) ?? []
  return rule === undefined ? '' : `: ${rule}`
}
