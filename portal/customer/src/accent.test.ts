import { expect, test } from 'vitest'
import { accentOf, contrastOf, grounds } from './accent.ts'

const hex = (value: number) => value.toString(16).padStart(2, '0')
const steps = Array.from({ length: 18 }, (_, at) => at * 15)
const colors = steps.flatMap((red) =>
  steps.flatMap((green) => steps.map((blue) => `#${hex(red)}${hex(green)}${hex(blue)}`)),
)

test('whatever the vendor’s colour is, buttons and links have a contrast of at least 4.5 on every ground of the page', () => {
  const poor = colors.filter((color) => {
    const { ground: button, on, textLight, textDark } = accentOf(color)
    const contrasts = [
      contrastOf(on, button),
      ...grounds.light.map((ground) => contrastOf(textLight, ground)),
      ...grounds.dark.map((ground) => contrastOf(textDark, ground)),
    ]
    return Math.min(...contrasts) < 4.5
  })
  expect(poor).toEqual([])
})

test('a colour that can be read stays as the vendor set it', () => {
  expect(accentOf('#0B6E4F')).toMatchObject({ ground: '#0b6e4f', on: '#ffffff', textLight: '#0b6e4f' })
  expect(accentOf('#ffd400')).toMatchObject({ ground: '#ffd400', on: '#000000', textDark: '#ffd400' })
})

test('the contrast of two colours is that of WCAG', () => {
  expect(contrastOf('#000000', '#ffffff')).toBeCloseTo(21)
  expect(contrastOf('#777777', '#ffffff')).toBeCloseTo(4.48, 2)
})
