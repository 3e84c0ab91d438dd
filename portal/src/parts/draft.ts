import { useEffect, useRef, type RefObject } from 'react'

/** Fields and options that do not appear within this time are given up. */
const RESTORES_MS = 10_000

type Entries = readonly (readonly [name: string, value: string])[]

/** Input that was typed when the session ended, by form. It is kept only until it is restored. */
const drafts = new Map<string, Map<string, string[]>>()

export function keepDraft(form: string, entries: Entries): void {
  const values = new Map<string, string[]>()
  for (const [name, value] of entries) values.set(name, [...(values.get(name) ?? []), value])
  drafts.set(idOf(form), values)
}

/** Fills the form with the typed input after the next sign-in. A select waits for its options. */
export function useDraft(form: RefObject<HTMLFormElement | null>, name: string): void {
  const until = useRef(0)
  useEffect(() => {
    const id = idOf(name)
    const draft = drafts.get(id)
    if (!draft || !form.current) return
    until.current ||= Date.now() + RESTORES_MS
    if (Date.now() > until.current) draft.clear()
    for (const element of form.current.elements) restore(element, draft)
    if (draft.size === 0) drafts.delete(id)
  })
}

function restore(element: Element, draft: Map<string, string[]>): void {
  if (element instanceof HTMLInputElement && element.type === 'checkbox') {
    const chosen = draft.get(element.name)
    const left = chosen?.filter((value) => value !== element.value)
    if (!chosen || !left || left.length === chosen.length) return
    if (left.length === 0) draft.delete(element.name)
    else draft.set(element.name, left)
    if (!element.checked) element.click()
    return
  }
  const isText = element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement
  if (!isText && !(element instanceof HTMLSelectElement)) return
  const [value] = draft.get(element.name) ?? []
  if (value === undefined) return
  // React overrides the setter on the element and would not notice the change, so the prototype's setter is called, then the event is sent.
  const type = Object.getPrototypeOf(element) as object
  Object.getOwnPropertyDescriptor(type, 'value')?.set?.call(element, value)
  if (element.value !== value) return
  draft.delete(element.name)
  element.dispatchEvent(new Event(isText ? 'input' : 'change', { bubbles: true }))
}

function idOf(form: string): string {
  return `${location.pathname} ${form}`
}
