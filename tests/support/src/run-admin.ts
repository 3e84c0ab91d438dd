import { execFile } from 'node:child_process'
import { commandEnvironment } from './command-environment.ts'
import type { Stack } from './stack-shape.ts'

export interface Ended {
  code: number
  stdout: string
  stderr: string
}

const program = new URL('../../../services/catalog/src/admin/licensing-admin.ts', import.meta.url).pathname

/** Runs `licensing-admin` beside a stack, with the environment of its catalog. */
export function runAdmin(stack: Stack, ...args: string[]): Promise<Ended> {
  const environment = { ...commandEnvironment(), ...stack.processes.catalog[0]!.environment }
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { env: environment }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr })
    })
  })
}
