'use client'

import { useMemo, useSyncExternalStore } from 'react'
import type { LicenceClient } from './product/client.ts'
import type { LicenceState } from './product/state.ts'

/**
 * The state of a licence. The component is rendered again when it changes. Ask the client itself for features and limits.
 * Create and activate the client outside of components: unmounting a component does not stop it.
 *
 * @example
 * const { usable, reason } = useLicence(licence)
 * return usable ? <Editor canExport={licence.hasFeature('export_pdf')} /> : <Refused reason={reason} />
 */
export function useLicence(licence: LicenceClient): LicenceState {
  const { subscribe, read } = useMemo(() => watch(licence), [licence])
  return useSyncExternalStore(subscribe, read, read)
}

/** The client creates a new state object at each read; React needs the same one until something has changed. */
function watch(licence: LicenceClient) {
  let state = licence.state
  return {
    subscribe(changed: () => void): () => void {
      // The state may have changed between the first rendering and now.
      state = licence.state
      return licence.onChange((next) => {
        state = next
        changed()
      })
    },
    read: () => state,
  }
}
