import { createHash } from 'node:crypto'
import type { FastifyReply } from 'fastify'

const style = `
:root { color-scheme: light dark }
body { font: 1rem/1.6 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto 4rem; padding: 0 1.25rem; overflow-wrap: break-word }
h1, h2, h3 { line-height: 1.25 }
pre { overflow-x: auto; padding: 0.75rem 1rem; border: 1px solid #8886; border-radius: 0.25rem }
code { font-size: 0.9em }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0 }
`

// The policy allows only this style, by its hash. Nothing else is loaded or run.
const styleHash = createHash('sha256').update(style).digest('base64')

const headers = {
  'content-security-policy': `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
  'cache-control': 'no-cache',
}

/** Answers with a page for people. */
export function sendPage(reply: FastifyReply, title: string, body: string): FastifyReply {
  return reply.headers(headers).type('text/html; charset=utf-8').send(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · Licensing</title>
<style>${style}</style>
</head>
<body>
<nav><a href="/docs/guides">Guides</a> · <a href="/docs">API reference</a> · <a href="/downloads/">Downloads</a></nav>
<main>
${body}
</main>
</body>
</html>
`)
}
