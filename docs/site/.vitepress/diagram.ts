import { renderMermaidSVG } from 'beautiful-mermaid'

/** A Mermaid diagram as an SVG that has the colours of the page, also in dark mode. */
export function renderDiagram(source: string): string {
  const svg = renderMermaidSVG(source, {
    bg: 'var(--vp-c-bg)',
    fg: 'var(--vp-c-text-1)',
    muted: 'var(--vp-c-text-1)',
    padding: 8,
    nodeSpacing: 12,
    layerSpacing: 24,
    font: 'system-ui',
    transparent: true,
  })
    // The library loads its font from another host.
    .replaceAll(/@import[^;]*;/g, '')
    .replace('<svg ', '<svg role="img" aria-label="Diagram" ')
  const text = JSON.stringify(svg).replaceAll('&', '&amp;').replaceAll("'", '&#39;')
  // As a value, because a template of Vue leaves out the style that is in the SVG.
  return `<div class="diagram" tabindex="0" v-html='${text}'></div>\n`
}
