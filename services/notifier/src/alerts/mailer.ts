import { createTransport } from 'nodemailer'

interface Mail {
  to: string
  /** Fixed words and numbers: nothing that a vendor or a caller wrote. */
  subject: string
  text: string
  /** The same for each try of a mail, so that a mail system may recognise a repeat. */
  reference: string
}

/** Hands a mail to the server; rejects when the server has not taken it. */
export type SendMail = (mail: Mail) => Promise<void>

/**
 * Longer than looking up an address and handing over a mail can take: each answer of the mail server may take as long as
 * `socketTimeout`, and there are up to ten.
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
    // As an object it is one address: a text would be read as a list.
    await transport.sendMail({ from, to: { name: '', address: to }, subject, text, messageId })
  }
}

/** Whether a failed mail is certain not to have been taken: the server refused it, or the connection was never made. */
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
