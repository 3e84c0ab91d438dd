type Color = readonly [number, number, number]

const black: Color = [0, 0, 0]
const white: Color = [255, 255, 255]

/** `--ground` and `--surface` of `styles.css` in light and in dark mode. */
export const grounds = { light: ['#f4f5f7', '#ffffff'], dark: ['#0f1116', '#171a20'] } as const

const minContrast = 4.5

/** Colours that follow from the vendor's colour. With every colour, texts have a contrast of 4.5. */
export interface Accent {
  /** The ground of buttons. */
  ground: string
  /** Text on buttons. */
  on: string
  /** Links in light and in dark mode. */
  textLight: string
  textDark: string
}

export function accentOf(color: string): Accent {
  const ground = parse(color)
  // Every colour has a contrast of at least 4.58 to black or to white.
  const on = contrast(ground, white) >= contrast(ground, black) ? white : black
  return {
    ground: text(ground),
    on: text(on),
    textLight: text(towards(ground, black, grounds.light)),
    textDark: text(towards(ground, white, grounds.dark)),
  }
}

/** The colour, mixed with another one until it can be read on each of these grounds. */
function towards(color: Color, other: Color, on: readonly string[]): Color {
  for (let part = 0; part < 1; part += 0.02) {
    const mixed = mix(color, other, part)
    if (on.every((ground) => contrast(mixed, parse(ground)) >= minContrast)) return mixed
  }
  return other
}

const mix = (a: Color, b: Color, part: number) =>
  a.map((value, at) => Math.round(value + (b[at]! - value) * part)) as unknown as Color

function parse(color: string): Color {
  return [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16)) as unknown as Color
}

const text = (color: Color) => `#${color.map((value) => value.toString(16).padStart(2, '0')).join('')}`

/** The contrast of two colours (WCAG 2.2). */
export function contrastOf(a: string, b: string): number {
  return contrast(parse(a), parse(b))
}

function contrast(a: Color, b: Color): number {
  const [lighter, darker] = [luminance(a), luminance(b)].sort((one, other) => other - one) as [number, number]
  return (lighter + 0.05) / (darker + 0.05)
}

function luminance(color: Color): number {
  const [red, green, blue] = color.map((value) => {
    const part = value / 255
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
  }) as unknown as Color
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}
