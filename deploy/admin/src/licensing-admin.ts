#!/usr/bin/env node
import { runAdmin } from './run-admin.ts'

const { output, errors, code } = await runAdmin(process.argv.slice(2), process.env)
process.stdout.write(output)
process.stderr.write(errors)
process.exitCode = code
