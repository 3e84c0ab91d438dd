import { runAdmin as runProgram } from '@licensing/admin/run-admin'
import type { Ended, Stack } from './stack-shape.ts'

/** Runs a command of `licensing-admin` with the environment of a stack's catalog. On compose it runs in the catalog's container. */
export async function runAdmin(
  stack: Pick<Stack, 'processes' | 'runAdmin'>,
  ...args: string[]
): Promise<Ended> {
  if (stack.runAdmin) return stack.runAdmin(args)
  const { code, output, errors } = await runProgram(args, stack.processes.catalog[0]!.environment)
  return { code, stdout: output, stderr: errors }
}
