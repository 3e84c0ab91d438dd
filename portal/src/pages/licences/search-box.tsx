import { trimUnseen, withoutSeparators } from '@licensing/formats/licence-key'
import { useEffect, useRef, useState } from 'react'
import { useAddress } from '../../address.ts'
import styles from './licences.module.css'

const DEBOUNCE_MS = 250

/** Whether the text is a licence key or a long beginning of a key. Keys are secret, so they are kept out of the address. */
export function looksLikeLicenceKey(text: string): boolean {
  if (/^[0-9A-Z]{25}$/i.test(withoutSeparators(text))) return true
  return /^(?:[0-9A-TV-Z]{5}\p{Dash_Punctuation}){2}/iu.test(trimUnseen(text))
}

export interface Searched {
  /** The searched text: from the address, or from the component's state if it must not be in the address. */
  text: string
  search: (text: string) => void
  /** Called when the searched text is a licence key. */
  hide: () => void
}

export function useSearchedText(): Searched {
  const [{ q = '' }, setAddress] = useAddress()
  const [secret, setSecret] = useState('')
  const searchSecret = (text: string) => {
    setSecret(text)
    if (q !== '') setAddress({ q: undefined }, { replace: true })
  }
  return {
    text: secret === '' ? q : secret,
    hide: () => searchSecret(q),
    search: (text) => {
      if (looksLikeLicenceKey(text)) return searchSecret(text)
      setSecret('')
      // Typed letters replace the entry of the browser's history instead of adding entries.
      if (text !== q) setAddress({ q: text, page: undefined }, { replace: q !== '' && text !== '' })
    },
  }
}

export function SearchBox({ searched: { text, search } }: { searched: Searched }) {
  const [typed, setTyped] = useState(text)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const sent = useRef(text)
  // The browser's back and forward buttons change the searched text too.
  useEffect(() => {
    if (text !== sent.current) setTyped(text)
    sent.current = text
  }, [text])
  const send = (value: string) => {
    clearTimeout(timer.current)
    sent.current = value.trim()
    search(value.trim())
  }
  return (
    <form
      role="search"
      className={styles.search}
      onSubmit={(event) => {
        event.preventDefault()
        send(typed)
      }}
    >
      <input
        type="search"
        aria-label="Search licences"
        placeholder="Customer, key, charge, activation, host …"
        autoComplete="off"
        spellCheck={false}
        value={typed}
        onChange={({ target: { value } }) => {
          setTyped(value)
          clearTimeout(timer.current)
          timer.current = setTimeout(() => send(value), value === '' ? 0 : DEBOUNCE_MS)
        }}
      />
    </form>
  )
}
