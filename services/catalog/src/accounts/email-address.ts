// Control characters, and what separates or quotes addresses in the header of a mail.
const excluded = String.raw`\s@\p{Cc}<>()[\]\\,;:"`

/** Loosely what an e-mail address is; local ones without a dot are addresses too. Only a message that arrives proves it. */
export const emailAddress = new RegExp(`^(?=.{3,254}$)[^${excluded}]+@[^${excluded}]+$`, 'u')
