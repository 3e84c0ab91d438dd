import './styles.css'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { Page } from './page.tsx'
import { german } from './texts/de.ts'
import { english } from './texts/en.ts'

/** The first of the browser's languages that the page has, or else English. */
function textsOfBrowser() {
  for (const language of navigator.languages) {
    if (/^de\b/i.test(language)) return german
    if (/^en\b/i.test(language)) return english
  }
  return english
}

const texts = textsOfBrowser()
document.documentElement.lang = texts.language

createRoot(document.querySelector('#root')!).render(
  <StrictMode>
    <Page texts={texts} />
  </StrictMode>,
)
