import { html } from './html.ts'
import type { Html } from './html.ts'
import { style } from './style.ts'

export function layout(title: string, body: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title} · simulated Stripe</title>
        <style>
          ${style}
        </style>
      </head>
      <body>
        <div class="tape" role="note">
          Simulated – no money moves
          <small>A local stand-in for Stripe. No card is asked for, nobody is charged.</small>
        </div>
        <main>${body}</main>
      </body>
    </html> `.text
}

const colours: Record<string, string> = {
  active: 'good',
  complete: 'good',
  delivered: 'good',
  paid: 'good',
  succeeded: 'good',
  won: 'good',
  canceled: 'bad',
  dropped: 'bad',
  expired: 'quiet',
  failed: 'bad',
  lost: 'bad',
  needs_response: 'bad',
  unpaid: 'warn',
  skipped: 'quiet',
  warning_closed: 'quiet',
}

export function chip(status: string): Html {
  return html`<span class="chip ${colours[status] ?? 'warn'}">${status.replaceAll('_', ' ')}</span>`
}

export function moment(seconds: number): Html {
  const text = new Date(seconds * 1000).toISOString()
  return html`<time datetime="${text}">${text.slice(0, 16).replace('T', ' ')} UTC</time>`
}

/** One click that does a control action. `fields` are sent along; `inputs` are left to the user. */
export function act(action: string, label: string, fields: Record<string, string>, inputs?: Html): Html {
  const hidden = Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )
  return html`<form method="post" action="/actions/${action}">
    ${hidden}${inputs}<button>${label}</button>
  </form>`
}
