import { useSyncExternalStore } from 'react'
import { importFile, type ImportResult } from '../../api/import-licences.ts'
import { removeWork, startWork } from '../../parts/work.ts'

/** The chosen file of an application, and the result of its import. It is kept while the user is on other pages. */
export interface ImportRun {
  readonly file: File
  /** The last action that was started with the file. */
  readonly began: 'check' | 'import' | null
  readonly isChecked: boolean
  readonly result: ImportResult | null
}

let runs: ReadonlyMap<string, ImportRun> = new Map()
const listeners = new Set<() => void>()

export function useImportRun(appId: string): ImportRun | undefined {
  return useSyncExternalStore(subscribe, () => runs).get(appId)
}

export const importWorkId = (appId: string) => `import ${appId}`

export function chooseFile(appId: string, file: File): void {
  removeWork(importWorkId(appId))
  put(appId, { file, began: null, isChecked: false, result: null })
}

export function begin(appId: string, what: 'check' | 'import'): void {
  const run = runs.get(appId)
  if (!run) return
  const { file } = run
  const isCheck = what === 'check'
  let now: ImportRun = { ...run, began: what, result: null }
  const change = (fields: Partial<ImportRun>) => {
    now = { ...now, ...fields }
    // If the user has chosen another file meanwhile, this result is dropped.
    if (runs.get(appId)?.file === file) put(appId, now)
  }
  const title = isCheck ? `Checking ${file.name}` : `Importing ${file.name}`
  startWork({ id: importWorkId(appId), title, address: '/import', total: 0 }, async (report, signal) => {
    change({})
    const request = { appId, file, dryRun: isCheck }
    await importFile(
      request,
      (result) => {
        const { total, created, existing, failed } = result
        report({ total, done: created + existing + failed, ...(!isCheck && { failed }) })
        change({ result })
      },
      signal,
    )
    if (isCheck) change({ isChecked: true })
  })
}

function put(appId: string, run: ImportRun): void {
  runs = new Map(runs).set(appId, run)
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
