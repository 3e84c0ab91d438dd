import { newId } from '../world/ids.ts'
import { html } from './html.ts'
import { layout } from './layout.ts'

/** The page on which a vendor lets the platform act for an account; `query` is what it was opened with. */
export function consentPage(query: Record<string, string>): string {
  const body = html`<section class="card pay">
    <p class="small">Licensing Platform (simulated) asks for access to your account</p>
    <form method="post" action="/oauth/authorize">
      ${Object.entries(query).map(
        ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
      )}
      <label>Account <input name="account" value="${newId('acct')}" pattern="acct_[A-Za-z0-9_]+" /></label>
      <button class="main" name="consent" value="given">Give access</button>
      <button name="consent" value="denied">Refuse</button>
    </form>
  </section>`
  return layout('Connect', body)
}
