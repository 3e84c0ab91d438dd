import type { FastifyReply } from 'fastify'

/** HTML that needs no escaping. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = Html | string | number | null | undefined | false | Part[]

/** A template that escapes its values, unless they are `Html`. */
export function html(strings: TemplateStringsArray, ...values: Part[]): Html {
  return new Html(strings.map((text, index) => text + render(values[index])).join(''))
}

function render(part: Part): string {
  if (part === null || part === undefined || part === false) return ''
  if (Array.isArray(part)) return part.map(render).join('')
  return part instanceof Html ? part.text : escape(String(part))
}

const escapes: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

function escape(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => escapes[character]!)
}

// Pages run no scripts. Forms may redirect to the shop's pages.
const contentSecurityPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'self' http: https:; frame-ancestors 'none'"

export function sendPage(reply: FastifyReply, title: string, body: Html): FastifyReply {
  const page = html`<!doctype html>
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
    </html> `
  return reply
    .header('content-security-policy', contentSecurityPolicy)
    .header('cache-control', 'no-store')
    .type('text/html; charset=utf-8')
    .send(page.text)
}

const good = ['active', 'complete', 'delivered', 'paid', 'succeeded', 'won']
const bad = ['canceled', 'dropped', 'failed', 'lost', 'needs_response']

export function chip(status: string): Html {
  const colour = good.includes(status) ? 'good' : bad.includes(status) && 'bad'
  return html`<span class="chip ${colour}">${status.replaceAll('_', ' ')}</span>`
}

const style = new Html(`
:root { color-scheme: light dark; --soft: light-dark(#667085, #9aa3b5); --line: light-dark(#e3e7ef, #323848);
  --page: light-dark(#f5f6fa, #14171f); --card: light-dark(#fff, #1c212c); --accent: light-dark(#5b5bd6, #8b8bf0); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: light-dark(#1f2533, #e8eaf2); font: 15px/1.5 system-ui, sans-serif; }
a { color: var(--accent); }
code { font: 12px ui-monospace, monospace; overflow-wrap: anywhere; }
.tape { background: repeating-linear-gradient(-45deg, #ffd84d 0 18px, #ffe68a 18px 36px); color: #3b2f00; padding: 14px 20px;
  text-align: center; font-size: 19px; font-weight: 700; }
.tape small { display: block; font-size: 13px; font-weight: 500; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 60px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 4px 18px; }
.small { color: var(--soft); font-size: 13px; }
.chip { padding: 1px 9px; border-radius: 99px; font-size: 12.5px; font-weight: 600; border: 1px solid; white-space: nowrap; }
.good { color: light-dark(#12805c, #4ecb9c); } .bad { color: light-dark(#c0362c, #ff8a80); }
form { margin: 0; display: inline-flex; gap: 6px; }
button, input { font: inherit; font-size: 14px; padding: 5px 12px; border-radius: 8px; border: 1px solid var(--line);
  background: var(--card); color: inherit; }
button { cursor: pointer; }
button.main { background: var(--accent); color: light-dark(#fff, #14171f); }
.pay { max-width: 460px; margin: 24px auto; padding: 26px 28px 22px; }
.pay .total { font-size: 34px; font-weight: 700; margin: 2px 0 14px; }
.pay form, .pay label { display: grid; gap: 10px; }
`)
