/** Loosely what an e-mail address is; local ones without a dot are addresses too. Only a message that arrives proves it. */
export const emailAddress = /^[^\s@\0]{1,64}@[^\s@\0]{1,255}$/u
