import { ServiceError } from '@licensing/grpc/errors'

/** How each call ended: `ok`, or the code of its error, with the pointers of a validation. */
export async function outcomesOf(attempts: Promise<unknown>[]): Promise<string[]> {
  const settled = await Promise.allSettled(attempts)
  return settled.map((outcome) => {
    if (outcome.status === 'fulfilled') return 'ok'
    if (!(outcome.reason instanceof ServiceError)) throw outcome.reason
    return [outcome.reason.code, ...outcome.reason.errors.map(({ pointer }) => pointer)].join(' ')
  })
}

export async function outcomeOf(attempt: Promise<unknown>): Promise<string> {
  return (await outcomesOf([attempt]))[0]!
}
