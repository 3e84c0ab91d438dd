import { runAdmin as runProgram } from '../../../services/catalog/src/admin/run-admin.ts'
import type { Stack } from './stack-shape.ts'

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

/** Runs a command of `licensing-admin` with the environment of a stack's catalog. */
export async function runAdmin(stack: Pick<Stack, 'processes'>, ...args: string[]): Promise<Ended> {
  const { code, output, errors } = await runProgram(args, stack.processes.catalog[0]!.environment)
  return { code, stdout: output, stderr: errors }
}
