'use client'

import { useMemo, useSyncExternalStore } from 'react'
import type { LicenceClient } from './product/client.ts'
import type { LicenceState } from './product/state.ts'

/**
 * The state of a licence in a component, which is rendered again whenever it changes. What is granted is asked of the
 * client itself, as elsewhere. Make the client and activate it outside of components; unmounting one does not stop it.
 *
 * @example
 * const { usable, reason } = useLicence(licence)
 * return usable ? <Editor canExport={licence.hasFeature('export_pdf')} /> : <Refused reason={reason} />
 */
export function useLicence(licence: LicenceClient): LicenceState {
  const { subscribe, read } = useMemo(() => watch(licence), [licence])
  return useSyncExternalStore(subscribe, read, read)
}

/** The client makes a new state at each question; React needs the same one until something changed. */
function watch(licence: LicenceClient) {
  let state = licence.state
  return {
    subscribe(changed: () => void): () => void {
      // What happened between the first rendering and now.
      state = licence.state
      return licence.onChange((next) => {
        state = next
        changed()
      })
    },
    read: () => state,
  }
}
