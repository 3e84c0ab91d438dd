/** `authorize`: the vendor proves the account on the processor's consent page; `direct`: it names one. */
export const processorClaims = ['authorize', 'direct'] as const

export type ProcessorClaim = (typeof processorClaims)[number]
