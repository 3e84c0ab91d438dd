import { createTransport } from 'nodemailer'

interface Mail {
  to: string
  /** Fixed words and numbers, no text from a vendor or a caller. */
  subject: string
  text: string
  /** The same for each try of a mail, so that a mail system can recognise repeated mails. */
  reference: string
}

/** Sends a mail. Rejects if the mail server has not accepted it. */
export type SendMail = (mail: Mail) => Promise<void>

/**
 * Longer than looking up an address and sending a mail can take: the mail server sends up to ten responses, each of which may
 * take `socketTimeout`.
 */
export const leaseSeconds = 300

/** @param url smtp://user:password@host:port, or smtps:// */
export function createMailer(url: string, from: string): SendMail {
  const transport = createTransport({
    url,
    connectionTimeout: 10_000,
    greetingTimeout: 10_000,
    socketTimeout: 20_000,
  })
  const domain = from.slice(from.lastIndexOf('@') + 1).replace(/[^A-Za-z0-9.-]/g, '') || 'localhost'
  return async ({ to, subject, text, reference }) => {
    const messageId = `<${reference}@${domain}>`
    // An object is always one address. A text would be parsed as a list.
    await transport.sendMail({ from, to: { name: '', address: to }, subject, text, messageId })
  }
}

/** Whether a failed mail was certainly not accepted: the server refused it, or no connection was made. */
export function wasRefused(error: unknown): boolean {
  const { responseCode, syscall, code, timeoutType } = Object(error) as Record<string, unknown>
  return (
    responseCode !== undefined ||
    syscall === 'connect' ||
    code === 'EDNS' ||
    timeoutType === 'CONNECT_TIMEOUT' ||
    timeoutType === 'GREETING_TIMEOUT'
  )
}
