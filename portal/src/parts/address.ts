import { useNavigate, useSearch } from '@tanstack/react-router'

/** The search parameters of the address, as they stand there. */
export type Address = Readonly<Record<string, string>>

/** What goes into the address: undefined takes it out. */
export type AddressChange = Readonly<Record<string, string | undefined>>

interface ChangeOptions {
  /** Replaces the last entry of the history, for a change that is no step of its own. */
  replace?: boolean
}

/** State that matters is in the address, so that a link to it can be shared. */
export function useAddress(): [Address, (change: AddressChange, options?: ChangeOptions) => void] {
  const address: Address = useSearch({ strict: false })
  const navigate = useNavigate()
  const change = (wanted: AddressChange, { replace = false }: ChangeOptions = {}) => {
    void navigate({
      to: '.',
      search: (before: AddressChange) => clean({ ...before, ...wanted }),
      hash: true,
      replace,
      resetScroll: false,
    })
  }
  return [address, change]
}

export function readAddress(search: string): Address {
  return clean(Object.fromEntries(new URLSearchParams(search)))
}

export function writeAddress(search: AddressChange): string {
  const text = new URLSearchParams(clean(search)).toString()
  return text === '' ? '' : `?${text}`
}

function clean(search: AddressChange): Record<string, string> {
  const kept = Object.entries(search).filter(([, value]) => value !== undefined && value !== '')
  return Object.fromEntries(kept) as Record<string, string>
}
