/** Loosely what an e-mail address is; local ones without a dot are addresses too. Only a message that arrives proves it. */
export const emailAddress = /^(?=.{3,254}$)[^\s@\0]+@[^\s@\0]+$/u
