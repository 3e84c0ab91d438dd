import { defineComponent, h, nextTick, onBeforeUnmount, onMounted, ref, useId, watch } from 'vue'
import type { VNode } from 'vue'

const STORED_AS = 'licensing-guides-language'

/** The language that the reader has chosen, for all groups of all pages. Null in a page that no script has taken over yet. */
const chosen = ref<string | null>(null)

function readChoice(): string {
  try {
    return localStorage.getItem(STORED_AS) ?? ''
  } catch {
    return '' // storage is forbidden
  }
}

function choose(name: string): void {
  chosen.value = name
  try {
    localStorage.setItem(STORED_AS, name)
  } catch {
    // The choice counts until the page is closed.
  }
}

/**
 * The same section in several languages, as tabs. The slot `s0` has the section of the first name, with its heading. Without a
 * script, all sections are shown, one below the other.
 */
export const Languages = defineComponent({
  props: { names: { type: Array<string>, required: true } },
  setup({ names }, { slots }) {
    const id = useId()
    const root = ref<HTMLElement>()
    const tabId = (at: number) => `${id}-tab-${at}`
    const panelId = (at: number) => `${id}-panel-${at}`
    const current = () => Math.max(0, names.indexOf(chosen.value ?? ''))

    /** A link to a heading chooses its language. */
    const follow = () => {
      const heading = document.querySelector(`#${CSS.escape(decodeURIComponent(location.hash.slice(1)))}`)
      const at = [...(root.value?.querySelectorAll('[role=tabpanel]') ?? [])].findIndex((panel) =>
        panel.contains(heading),
      )
      if (at < 0) return
      choose(names[at]!)
      void nextTick(() => heading?.scrollIntoView())
    }
    onMounted(() => {
      chosen.value ??= readChoice()
      void nextTick(() => location.hash && follow())
      addEventListener('hashchange', follow)
    })
    onBeforeUnmount(() => removeEventListener('hashchange', follow))

    /** The reader's eyes stay on the tabs that were clicked, although groups above change their height too. */
    watch(chosen, (_, before) => {
      if (before === null || !root.value?.contains(document.activeElement)) return
      const { top } = root.value.getBoundingClientRect()
      void nextTick(() =>
        scrollBy({ top: root.value!.getBoundingClientRect().top - top, behavior: 'instant' }),
      )
    })

    const select = (at: number, tabs: HTMLElement | null) => {
      const next = (at + names.length) % names.length
      choose(names[next]!)
      tabs?.querySelectorAll('button')[next]?.focus()
    }
    const onKey = (event: KeyboardEvent) => {
      const moves: Record<string, number> = {
        ArrowLeft: current() - 1,
        ArrowRight: current() + 1,
        Home: 0,
        End: -1,
      }
      const to = moves[event.key]
      if (to === undefined) return
      event.preventDefault()
      select(to, event.currentTarget as HTMLElement)
    }
    const tab = (name: string, at: number): VNode =>
      h(
        'button',
        {
          type: 'button',
          role: 'tab',
          id: tabId(at),
          'aria-selected': current() === at,
          'aria-controls': panelId(at),
          tabindex: current() === at ? 0 : -1,
          onClick: () => choose(name),
        },
        name,
      )
    return () => {
      const sections = names.map((_, at) => slots[`s${at}`]?.())
      if (chosen.value === null) return h('div', { class: 'languages', ref: root }, sections)
      const panels = sections.map((section, at) => {
        const attributes = { role: 'tabpanel', id: panelId(at), 'aria-labelledby': tabId(at) }
        return h('div', { ...attributes, tabindex: 0, hidden: current() !== at }, section)
      })
      const tabs = h('div', { role: 'tablist', 'aria-label': 'Language', onKeydown: onKey }, names.map(tab))
      return h('div', { class: 'languages tabs', ref: root }, [tabs, ...panels])
    }
  },
})
