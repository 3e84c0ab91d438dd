import './styles.css'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { Page } from './page.tsx'
import { textsFor } from './texts/texts.ts'

const texts = textsFor(navigator.languages)
document.documentElement.lang = texts.language

createRoot(document.querySelector('#root')!).render(
  <StrictMode>
    <Page texts={texts} />
  </StrictMode>,
)
