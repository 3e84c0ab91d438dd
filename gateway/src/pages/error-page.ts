import { errorCatalogue } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'

export function errorPage(code: ErrorCode): string {
  const { http, title, meaning, remedy } = errorCatalogue[code]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>
  :root { color-scheme: light dark }
  body { font: 1.05rem/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1.5rem }
  p.status { opacity: 0.7; margin: 0 }
  h1 { margin: 0 0 1.5rem }
  code { font-size: 0.95em }
</style>
</head>
<body>
<p class="status">HTTP ${http} · <code>${code}</code></p>
<h1>${title}</h1>
<h2>What it means</h2>
<p>${html(meaning)}</p>
<h2>What to do</h2>
<p>${html(remedy)}</p>
<p><a href="/docs">API reference</a></p>
</body>
</html>
`
}

export function errorText(code: ErrorCode): string {
  const { http, title, meaning, remedy } = errorCatalogue[code]
  return `${http} ${code}: ${title}\n\nWhat it means: ${meaning}\nWhat to do: ${remedy}\n`
}

function html(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}
