import { createTransport } from 'nodemailer'

interface Mail {
  to: string
  subject: string
  text: string
  /** The same for each try of a mail, so that a mail system may recognise a repeat. */
  reference: string
}

/** Hands a mail to the server; rejects when the server has not taken it. */
export type SendMail = (mail: Mail) => Promise<void>

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
    await transport.sendMail({ from, to, subject, text, messageId: `<${reference}@${domain}>` })
  }
}
