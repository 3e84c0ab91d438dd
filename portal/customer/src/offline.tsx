import { useState, type FormEvent } from 'react'
import { call, Refusal, type Licence } from './api.ts'
import { Alert, dateText, problemText, Region, type WithSession } from './parts.tsx'
import type { Texts } from './texts/en.ts'

interface Props {
  licence: Licence
  texts: Texts
  withSession: WithSession
  reload: () => Promise<void>
}

const maxBytes = 12_000

export function Offline({ licence, texts, withSession, reload }: Props) {
  const words = texts.offline
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const [until, setUntil] = useState<string | null>(null)
  const make = async (form: FormData) => {
    const file = form.get('request')
    if (!(file instanceof File) || file.size === 0) return setProblem(words.noFile)
    if (file.size > maxBytes) return setProblem(texts.problems.badRequest)
    setBusy(true)
    try {
      const body = { request: await file.text(), days: Number(form.get('days')) }
      const made = await withSession((token) =>
        call<{ file: string; expires_at: string }>('POST', '/v1/customer/offline-activations', {
          token,
          body,
        }),
      )
      save(made.file)
      setUntil(made.expires_at)
      await reload()
    } catch (error) {
      setProblem(
        problemText(error instanceof Error ? error : new Refusal('offline'), texts, {
          'validation_failed /days': texts.problems.badDays(licence.offline_days),
          validation_failed: texts.problems.badRequest,
          licence_refused: texts.problems.refused,
          limit_reached: texts.problems.full,
          quota_exceeded: texts.problems.full,
        }),
      )
    } finally {
      setBusy(false)
    }
  }
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    setProblem(null)
    setUntil(null)
    void make(new FormData(event.currentTarget))
  }
  return (
    <Region id="offline" title={words.title}>
      <p>{words.how}</p>
      <form onSubmit={submit} noValidate>
        <div className="field">
          <label htmlFor="request">{words.file}</label>
          <input type="file" id="request" name="request" />
        </div>
        <div className="field">
          <label htmlFor="days">{words.days}</label>
          <input
            type="number"
            id="days"
            name="days"
            min={1}
            max={licence.offline_days}
            defaultValue={licence.offline_days}
            aria-describedby="days-hint"
          />
          <p id="days-hint" className="hint">
            {words.daysHint(licence.offline_days)}
          </p>
        </div>
        {problem !== null && <Alert>{problem}</Alert>}
        <button type="submit" disabled={isBusy}>
          {words.download}
        </button>
        <p role="status">{until !== null && words.done(dateText(until, texts))}</p>
      </form>
    </Region>
  )
}

function save(text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/plain' }))
  const link = document.createElement('a')
  link.href = address
  link.download = 'licence.txt'
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}
