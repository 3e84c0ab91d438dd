import { useNavigate, useSearch } from '@tanstack/react-router'

/** The search parameters of the address, unchanged. */
export type Address = Readonly<Record<string, string>>

/** New values for parameters. Undefined removes a parameter. */
export type AddressChange = Readonly<Record<string, string | undefined>>

interface ChangeOptions {
  /** Replaces the current entry of the browser's history instead of adding an entry. */
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
