import type { FastifyReply } from 'fastify'

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

/** A button for a control action. It sends `fields`, and the user fills in `inputs`. */
export function act(action: string, label: string, fields: Record<string, string>, inputs?: Html): Html {
  const hidden = Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  )
  return html`<form method="post" action="/actions/${action}">
    ${hidden}${inputs}<button>${label}</button>
  </form>`
}

// Pages run no scripts. Forms may redirect to the shop's pages.
const contentSecurityPolicy =
  "default-src 'none'; style-src 'unsafe-inline'; form-action 'self' http: https:; frame-ancestors 'none'"

export function sendPage(reply: FastifyReply, page: string): FastifyReply {
  return reply
    .header('content-security-policy', contentSecurityPolicy)
    .header('cache-control', 'no-store')
    .type('text/html; charset=utf-8')
    .send(page)
}

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

function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}

export const style = new Html(`
:root { color-scheme: light dark; --ink: #1f2533; --soft: #667085; --line: #e3e7ef; --page: #f5f6fa; --card: #fff;
  --accent: #5b5bd6; --good: #12805c; --bad: #c0362c; --warn: #9a6200; --tape: #ffd84d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf2; --soft: #9aa3b5; --line: #323848; --page: #14171f;
  --card: #1c212c; --accent: #8b8bf0; --good: #4ecb9c; --bad: #ff8a80; --warn: #f2c063; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
a { color: var(--accent); }
code { font: 12px ui-monospace, monospace; overflow-wrap: anywhere; }
.tape { background: repeating-linear-gradient(-45deg, var(--tape) 0 18px, #ffe68a 18px 36px); color: #3b2f00;
  padding: 14px 20px; text-align: center; font-size: 19px; font-weight: 700; }
.tape small { display: block; font-size: 13px; font-weight: 500; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 24px; margin: 8px 0 2px; }
h2 { font-size: 17px; margin: 34px 0 10px; }
h2 .count { color: var(--soft); font-weight: 400; }
.lead, .empty { color: var(--soft); margin: 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.empty.card { padding: 18px 20px; }
.row { display: grid; grid-template-columns: minmax(0, 1.5fr) minmax(0, 1fr) minmax(0, 2.1fr); gap: 6px 18px;
  padding: 14px 18px; border-top: 1px solid var(--line); align-items: center; }
.row:first-child { border-top: 0; }
.row .sub { grid-column: 1 / -1; display: flex; flex-wrap: wrap; gap: 8px; align-items: center; padding-left: 14px;
  border-left: 3px solid var(--line); font-size: 14px; }
.money { font-weight: 650; font-variant-numeric: tabular-nums; }
.small { color: var(--soft); font-size: 13px; }
.chip { display: inline-block; padding: 1px 9px; border-radius: 99px; font-size: 12.5px; font-weight: 600;
  border: 1px solid currentColor; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); } .quiet { color: var(--soft); }
.acts { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; justify-content: flex-end; }
form { margin: 0; display: inline-flex; gap: 6px; }
button, .button { font: inherit; font-size: 14px; padding: 5px 12px; border-radius: 8px; cursor: pointer; color: var(--ink);
  background: var(--card); border: 1px solid var(--line); text-decoration: none; }
button:hover, .button:hover { border-color: var(--accent); color: var(--accent); }
button.main { background: var(--accent); border-color: var(--accent); color: #fff; }
@media (prefers-color-scheme: dark) { button.main { color: #14171f; } }
input { font: inherit; font-size: 14px; padding: 4px 9px; border-radius: 8px; border: 1px solid var(--line);
  background: var(--page); color: var(--ink); }
.row input { width: 118px; }
.tools { display: flex; gap: 8px; align-items: center; margin: 0 0 10px; }
.flash { border-radius: 10px; padding: 10px 16px; margin: 0 0 18px; border: 1px solid currentColor; background: var(--card); }
.pay { max-width: 460px; margin: 24px auto; padding: 26px 28px 22px; }
.pay .total { font-size: 34px; font-weight: 700; margin: 2px 0 14px; }
.pay .line { display: flex; justify-content: space-between; gap: 12px; border-top: 1px solid var(--line); padding: 9px 0; }
.pay form { display: grid; gap: 10px; margin-top: 16px; }
.pay label { display: grid; gap: 4px; font-size: 13px; color: var(--soft); }
.pay input, .pay button { padding: 10px 14px; font-size: 15px; }
.pay .back { display: block; text-align: center; margin-top: 16px; }
@media (max-width: 760px) { .row { grid-template-columns: 1fr; } .acts { justify-content: flex-start; } }
`)
