import { useRef, useState } from 'react'
import { call, type Licence } from './api.ts'
import { Alert, dateText, problemText, Region, type WithSession } from './parts.tsx'
import type { Texts } from './texts/en.ts'

interface Props {
  licence: Licence
  texts: Texts
  withSession: WithSession
}

export function LicenceRegion({ licence, texts, withSession }: Props) {
  const words = texts.licence
  const { expires_on: end, updates_until: updates, subscription } = licence
  const renewal = subscription && renewalText(subscription, texts)
  return (
    <Region id="licence" title={words.title}>
      <p className={`status ${licence.status}`}>{statusText(licence, texts)}</p>
      <dl>
        <dt>{words.key}</dt>
        <dd>
          <Key text={licence.key} texts={texts} />
        </dd>
        <dt>{words.plan}</dt>
        <dd>{licence.plan_name}</dd>
        <dt>{words.term}</dt>
        <dd>{renewal ?? (end === null ? words.never : words.until(dateText(end, texts)))}</dd>
        {updates !== null && (
          <>
            <dt>{words.updates}</dt>
            <dd>{words.updatesUntil(dateText(updates, texts))}</dd>
          </>
        )}
        {licence.entitlements.length > 0 && (
          <>
            <dt>{words.features}</dt>
            <dd>
              <ul>
                {licence.entitlements.map(({ key, display_name: name, kind, value }) => (
                  <li key={key}>
                    {name}:{' '}
                    <strong>
                      {kind === 'feature' ? words.feature[value === 'true' ? 'true' : 'false'] : value}
                    </strong>
                  </li>
                ))}
              </ul>
            </dd>
          </>
        )}
      </dl>
      {subscription && <ManageSubscription texts={texts} withSession={withSession} />}
    </Region>
  )
}

function renewalText(
  { renews_on, cancels_on }: NonNullable<Licence['subscription']>,
  texts: Texts,
): string | null {
  if (renews_on !== null) return texts.licence.renewsOn(dateText(renews_on, texts))
  return cancels_on === null ? null : texts.licence.cancelsOn(dateText(cancels_on, texts))
}

/** The meaning of the status for the customer, and what to do. */
function statusText(
  { status, status_reason, expires_on, trial, subscription }: Licence,
  texts: Texts,
): string {
  const words = texts.status
  const date = expires_on === null ? null : dateText(expires_on, texts)
  switch (status) {
    case 'active':
      if (trial && date !== null) return words.trial(date)
      if (subscription) return subscription.renews_on === null ? words.ending : words.renewing
      return words.active(date)
    case 'expired':
      return trial ? words.trialOver : words.expired(date)
    case 'suspended':
      return words.suspended[status_reason ?? 'manual']
    default:
      return words[status]
  }
}

function Key({ text, texts }: { text: string; texts: Texts }) {
  const [isCopied, setCopied] = useState(false)
  const code = useRef<HTMLElement>(null)
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setCopied(true)
    } catch {
      // Without the right to write, the key is selected, so that the customer can copy it.
      if (code.current) getSelection()?.selectAllChildren(code.current)
    }
  }
  return (
    <div className="key">
      <code ref={code}>{text}</code>
      <button type="button" className="quiet" onClick={() => void copy()}>
        {texts.licence.copyKey}
      </button>
      <span role="status">{isCopied && texts.copied}</span>
    </div>
  )
}

function ManageSubscription({ texts, withSession }: Pick<Props, 'texts' | 'withSession'>) {
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<unknown>(null)
  const open = async () => {
    setBusy(true)
    setProblem(null)
    try {
      const { url } = await withSession((token) =>
        call<{ url: string }>('POST', '/v1/customer/subscription-sessions', { token }),
      )
      location.assign(url)
    } catch (error) {
      setProblem(error)
    } finally {
      setBusy(false)
    }
  }
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => void open()}>
        {texts.licence.manageSubscription}
      </button>
      {problem !== null && (
        <Alert>{problemText(problem, texts, { conflict: texts.problems.noSubscription })}</Alert>
      )}
    </>
  )
}
