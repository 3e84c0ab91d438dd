import { hash } from 'node:crypto'

/** Escapes text for a page, also for a quoted attribute. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}

// The same look as the portal's (portal/src/tokens.css).
const style = `
:root { color-scheme: light dark }
* { box-sizing: border-box }
body { margin: 0; padding: min(18vh, 9rem) 1rem 1rem; background: light-dark(#f5f6f8, #0f1217); color: light-dark(#161b24, #e7eaf0); font: 0.875rem/1.5 system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif; overflow-wrap: anywhere }
main { display: grid; gap: 1rem; max-width: 30rem; margin: 0 auto; padding: 1.5rem; border: 1px solid light-dark(#dfe3ea, #2a313c); border-radius: 10px; background: light-dark(#fff, #161a21) }
h1, p, dl, dd { margin: 0 }
h1 { font-size: 1.375rem; line-height: 1.25 }
form { display: grid; gap: 0.75rem }
dd + dt { margin-top: 0.75rem }
dt { color: light-dark(#566070, #9da8b8); font-size: 0.8125rem }
dd { font-weight: 600 }
code { font: 0.93em ui-monospace, 'DejaVu Sans Mono', Menlo, monospace; font-weight: 400 }
[role=alert] { padding: 0.75rem 1rem; border-radius: 6px; background: light-dark(#fdeceb, #3a1b1a); color: light-dark(#a3211a, #ff9d94) }
button { width: 100%; min-height: 2.75rem; border: 0; border-radius: 6px; background: light-dark(#2a56cf, #3f6ae4); color: #fff; font: inherit; font-weight: 550; cursor: pointer }
a { color: light-dark(#2450c4, #93b2ff); text-underline-offset: 2px }
:focus-visible { outline: 2px solid light-dark(#2a56cf, #93b2ff); outline-offset: 2px }
`

/** Content Security Policy of a page with a form: its own style and its own form only. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${hash('sha256', style, 'base64')}'`,
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  // The address of the page contains a secret, so no referrer is sent to other sites. The page's own form needs an origin.
  'referrer-policy': 'same-origin',
  'cache-control': 'no-store',
}

/** @param body HTML; the caller has escaped texts in it */
export function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${escapeHtml(title)}</h1>
${body}
</main>
</body>
</html>
`
}
