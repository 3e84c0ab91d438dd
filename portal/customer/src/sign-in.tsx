import { useState, type FormEvent } from 'react'
import { call } from './api.ts'
import { Alert, problemText } from './parts.tsx'
import { appInPath } from './session.ts'
import type { Texts } from './texts/en.ts'

export function SignIn({ texts, begin }: { texts: Texts; begin: (token: string) => void }) {
  const words = texts.signIn
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<unknown>(null)
  const signIn = async (licenceKey: string) => {
    setBusy(true)
    setProblem(null)
    try {
      const path = `/v1/apps/${encodeURIComponent(appInPath() ?? '')}/customer-sessions`
      const { token } = await call<{ token: string }>('POST', path, { body: { licence_key: licenceKey } })
      begin(token)
    } catch (error) {
      setProblem(error)
      setBusy(false)
    }
  }
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const key = new FormData(event.currentTarget).get('key')
    void signIn(typeof key === 'string' ? key : '')
  }
  return (
    <form onSubmit={submit} className="region" noValidate>
      <div className="field">
        <label htmlFor="key">{words.key}</label>
        <input
          id="key"
          name="key"
          autoComplete="off"
          autoCapitalize="characters"
          spellCheck={false}
          aria-describedby="key-hint"
          aria-invalid={problem !== null}
        />
        <p id="key-hint" className="hint">
          {words.hint}
        </p>
      </div>
      {problem !== null && <Alert>{problemText(problem, texts, { not_found: words.wrong })}</Alert>}
      <button type="submit" disabled={isBusy}>
        {words.continue}
      </button>
    </form>
  )
}
