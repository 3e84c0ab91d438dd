#!/usr/bin/env node
// For `exec node …` in scripts of package.json. In a POSIX shell `exec` is built in and replaces the shell by the program, so
// that a signal that is sent to npm reaches the program. The cmd of Windows has no `exec` and runs this file.
import { spawn } from 'node:child_process'

const quoted = process.argv.slice(2).map((word) => (/^[\w./:=@-]+$/.test(word) ? word : JSON.stringify(word)))
// Needs a shell, because on Windows the files in node_modules/.bin are command files.
const child = spawn(quoted.join(' '), { shell: true, stdio: 'inherit' })
// Ctrl-C reaches every process of the console. This process waits for the end of the program.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined)
child.on('exit', (code) => process.exit(code ?? 1))
