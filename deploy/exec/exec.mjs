#!/usr/bin/env node
// `exec node …` in a script of package.json. In a POSIX shell `exec` is built in: the program takes the place of the
// shell, and a signal that reaches npm alone reaches it too. The cmd of Windows has none and finds this file.
import { spawn } from 'node:child_process'

const quoted = process.argv.slice(2).map((word) => (/^[\w./:=@-]+$/.test(word) ? word : JSON.stringify(word)))
// By the shell: on Windows what is in node_modules/.bin are command files.
const child = spawn(quoted.join(' '), { shell: true, stdio: 'inherit' })
// Ctrl-C reaches every process of the console; the program's own end is waited for.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => undefined)
child.on('exit', (code) => process.exit(code ?? 1))
