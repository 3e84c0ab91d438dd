/**
 * What the reference shows beyond what Swagger UI does: each operation's code samples, and a search over all operations
 * and events. Plain JavaScript, since a browser runs it as it stands.
 */
export const referencePlugin = `
const original = window.SwaggerUIBundle
window.SwaggerUIBundle = Object.assign(
  (config) => original({ ...config, plugins: [...config.plugins, licensingReference] }),
  original,
)

function licensingReference({ React }) {
  const h = React.createElement
  const samplesOf = ({ specSelectors, specPath }) =>
    specSelectors.specJson().getIn([...specPath.butLast(), 'x-codeSamples'])
  const sample = (each) =>
    h('details', { key: each.get('lang') },
      h('summary', null, each.get('label')),
      h('pre', { tabIndex: 0 }, h('code', null, each.get('source'))))
  const words = (operation) =>
    [operation.get('method'), operation.get('path'), operation.getIn(['operation', 'summary']), operation.get('id')]
      .join(' ').toLowerCase()
  return {
    fn: {
      opsFilter: (tags, phrase) => tags
        .map((tag) => tag.update('operations', (all) => all.filter((each) => words(each).includes(phrase.toLowerCase()))))
        .filter((tag) => tag.get('operations').size > 0),
    },
    wrapComponents: {
      FilterContainer: (_, { layoutActions, layoutSelectors }) => () =>
        h('div', { className: 'wrapper search' },
          h('label', null, 'Search operations ',
            h('input', {
              type: 'search',
              value: [layoutSelectors.currentFilter()].filter((text) => typeof text === 'string').join(),
              onChange: ({ target }) => layoutActions.updateFilter(target.value === '' ? true : target.value),
            }))),
      // The library's own label has no text.
      Servers: (Original) => (props) =>
        h(React.Fragment, null, h('label', { htmlFor: 'servers', className: 'unseen' }, 'Server'), h(Original, props)),
      responses: (Original) => (props) => {
        const samples = samplesOf(props)
        return h(React.Fragment, null,
          samples && h('section', { className: 'samples' }, h('h4', null, 'Code samples'), samples.toArray().map(sample)),
          h(Original, props))
      },
    },
  }
}
`

/** Colours that keep a contrast of 4.5 to 1, and the look of the above. */
export const referenceStyle = `
.swagger-ui .info .title small.version-stamp { background-color: #4a6a00 }
.swagger-ui .info a, .swagger-ui .info .link { color: #1f62b5 }
.swagger-ui .btn.authorize { color: #14683d; border-color: #14683d }
.swagger-ui .btn.authorize svg { fill: #14683d }
.swagger-ui .opblock.opblock-post .opblock-summary-method { background: #14683d }
.swagger-ui .opblock.opblock-get .opblock-summary-method { background: #1f62b5 }
.swagger-ui .opblock.opblock-put .opblock-summary-method { background: #8a4b00 }
.swagger-ui .opblock.opblock-patch .opblock-summary-method { background: #0f6657 }
.swagger-ui .opblock.opblock-delete .opblock-summary-method { background: #b71c1c }
.swagger-ui .parameter__in, .swagger-ui .json-schema-2020-12-expand-deep-button { color: #555 }
.swagger-ui .microlight span[style*="211, 99, 99"] { color: #ffb3b3 !important }
.swagger-ui .opblock-summary-path a, .swagger-ui .opblock-summary-control { line-height: 24px }
.swagger-ui .opblock-summary-path a { display: inline-block; min-height: 24px }
.swagger-ui .opblock-summary .view-line-link.copy-to-clipboard, .swagger-ui .opblock-summary .copy-to-clipboard button { width: 24px; min-width: 24px; height: 24px }
.swagger-ui .unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%) }
.swagger-ui .samples { padding: 0 20px }
.swagger-ui .samples h4 { font-size: 14px; margin: 10px 0 }
.swagger-ui .samples summary { cursor: pointer; padding: 4px 0; font-family: sans-serif }
.swagger-ui .samples pre { background: #222; color: #fff; padding: 10px; overflow-x: auto; border-radius: 4px }
.swagger-ui .samples pre code { background: none; color: inherit; font-size: 12px }
.swagger-ui .search input { min-width: min(24rem, 100%); margin: 10px }
`
