type Sendable = PromiseLike<unknown> & { execute(): unknown }

/**
 * Sends statements on one connection in this order, without waiting for answers in between, so that they take one round
 * trip. Resolves when all have ended.
 *
 * Pass statements only: a promise of an async function could send its statement after the others.
 *
 * @throws the error of the first statement that failed
 * @example await sendTogether(connection`delete …`, connection`commit`)
 */
export async function sendTogether<Statements extends readonly Sendable[]>(
  ...statements: Statements
): Promise<{ [At in keyof Statements]: Awaited<Statements[At]> }> {
  for (const statement of statements) statement.execute()
  await Promise.allSettled(statements)
  return Promise.all(statements)
}
