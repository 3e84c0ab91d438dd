/// <reference types="vitepress/client" />
import Theme from 'vitepress/theme-without-fonts'
import { Languages } from './languages.ts'
import './style.css'

export default {
  extends: Theme,
  enhanceApp: ({ app }: { app: { component: (name: string, component: object) => unknown } }) => {
    app.component('Languages', Languages)
  },
}
