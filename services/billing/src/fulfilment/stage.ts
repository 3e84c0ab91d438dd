/** From event to effect, in one direction. */
export type Stage = 'record' | 'decide' | 'carry out' | 'ask'
