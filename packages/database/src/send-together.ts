type Sendable = PromiseLike<unknown> & { execute(): unknown }

/**
 * Sends statements on one connection in this order, without waiting for the answer to one before the next: they take one
 * round trip. Resolves when all have ended.
 *
 * It takes statements and no other promises: what an async function awaits is sent later than what is executed here.
 *
 * @throws the first error in their order
 * @example await sendTogether(connection`delete …`, connection`commit`)
 */
export async function sendTogether<Statements extends readonly Sendable[]>(
  ...statements: Statements
): Promise<{ [At in keyof Statements]: Awaited<Statements[At]> }> {
  for (const statement of statements) statement.execute()
  await Promise.allSettled(statements)
  return Promise.all(statements)
}
