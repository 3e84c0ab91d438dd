/**
 * While its locks were waited for, a licence was taken to another plan or changed back. To look again the transaction
 * has to let go of the licence, for the plan is locked before it.
 */
export class Moved extends Error {
  override name = 'Moved'
}

/** Runs a transaction again for as long as it ends because a licence has moved. */
export async function untilSettled<T>(transaction: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await transaction()
    } catch (error) {
      if (!(error instanceof Moved)) throw error
    }
  }
}
