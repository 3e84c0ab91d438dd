/** One record of a CSV file. */
export interface CsvRecord {
  /** The line where it begins, from 1. */
  readonly line: number
  readonly fields: readonly string[]
  /** Why its quotes are invalid. */
  readonly flaw?: string
}

/** In a longer value, a closing quote is probably missing. */
const MAX_CHARACTERS = 65_536

const unclosed = 'a quoted value is not closed, or text follows it'
const misplaced = 'a quote stands inside a value'
const separators = [',', ';', '\t']

/**
 * Reads CSV (RFC 4180) piece by piece, also in browsers. The separator is the first comma, semicolon or tab of the file, or
 * the character that a first line such as `sep=;` names. Empty lines are skipped. Spaces around a quoted value belong to it.
 * `="0012"`, which Excel writes to keep zeros, is the value `0012`. After an invalid record the next one is read as usual.
 */
export class CsvReader {
  #separator = ''
  #line = 1
  #start = 1
  #fields: string[] = []
  #value = ''
  #at: 'begin' | 'plain' | 'quoted' | 'closed' | 'after' | 'spoiled' = 'begin'
  #flaw: string | undefined
  #afterReturn = false
  #isFirst = true
  #hasRecord = false;

  /** The records that this piece completes. */
  *push(text: string): Generator<CsvRecord, void, void> {
    for (const character of this.#isFirst ? text.replace(/^\uFEFF/, '') : text) {
      const wasReturn = this.#afterReturn
      this.#afterReturn = character === '\r'
      if (character === '\n' && wasReturn) continue
      if (character === '\n' || character === '\r') {
        this.#line += 1
        if (this.#at !== 'quoted') yield* this.#endRecord()
        else this.#add('\n')
      } else this.#take(character)
    }
    if (text !== '') this.#isFirst = false
  }

  /** The last record, if no line break follows it. */
  *end(): Generator<CsvRecord, void, void> {
    if (this.#at === 'quoted') this.#spoil(unclosed)
    yield* this.#endRecord()
  }

  #take(character: string): void {
    switch (this.#at) {
      case 'spoiled':
        return
      case 'begin':
        if (character === '"') this.#at = 'quoted'
        else if (this.#separates(character)) this.#endValue()
        else {
          this.#at = 'plain'
          this.#add(character)
        }
        return
      case 'plain':
        if (this.#separates(character)) this.#endValue()
        else if (character === '"') this.#openQuote()
        else this.#add(character)
        return
      case 'quoted':
        if (character === '"') this.#at = 'closed'
        else this.#add(character)
        return
      case 'closed':
        if (character === '"') {
          this.#at = 'quoted'
          this.#add(character)
        } else this.#follow(character)
        return
      case 'after':
        this.#follow(character)
    }
  }

  /** A quote after spaces, or after the `=` of `="0012"`. */
  #openQuote(): void {
    if (!/^\s*=?$/.test(this.#value)) return this.#spoil(misplaced)
    this.#value = this.#value.replace('=', '')
    this.#at = 'quoted'
  }

  /** Between a quoted value and the separator there may be only spaces. */
  #follow(character: string): void {
    if (this.#separates(character)) this.#endValue()
    else if (/\s/.test(character)) {
      this.#at = 'after'
      this.#add(character)
    } else this.#spoil(unclosed)
  }

  #separates(character: string): boolean {
    if (this.#separator !== '') return character === this.#separator
    if (!separators.includes(character)) return false
    this.#separator = character
    return true
  }

  #add(character: string): void {
    this.#value += character
    if (this.#value.length > MAX_CHARACTERS) this.#spoil('a value is too long')
  }

  #endValue(): void {
    // Some programs quote every value, so that `="0012"` arrives here in quotes.
    const [, before = '', inner, after = ''] = /^(\s*)="([^"]*)"(\s*)$/.exec(this.#value) ?? []
    this.#fields.push(inner === undefined ? this.#value : before + inner + after)
    this.#value = ''
    this.#at = 'begin'
  }

  #spoil(flaw: string): void {
    this.#flaw = flaw
    this.#value = ''
    this.#at = 'spoiled'
  }

  *#endRecord(): Generator<CsvRecord, void, void> {
    const isEmpty = this.#at === 'begin' && this.#fields.length === 0
    if (this.#at !== 'spoiled') this.#endValue()
    if (!isEmpty && !this.#hasRecord && this.#takeSeparatorLine()) return
    const record = { line: this.#start, fields: this.#fields, ...(this.#flaw && { flaw: this.#flaw }) }
    this.#beginRecord()
    this.#hasRecord ||= !isEmpty
    if (!isEmpty) yield record
  }

  #beginRecord(): void {
    this.#fields = []
    this.#flaw = undefined
    this.#at = 'begin'
    this.#start = this.#line
  }

  /** Whether the first record is a line such as `sep=;`. In `sep=;` the semicolon may already have ended a value `sep=`. */
  #takeSeparatorLine(): boolean {
    const [first = '', second, ...more] = this.#fields
    if (second === '' && more.length === 0 && /^sep=$/i.test(first)) {
      this.#beginRecord()
      return true
    }
    const named = second === undefined ? /^sep=(.)$/i.exec(first)?.[1] : undefined
    if (named === undefined) return false
    this.#separator = named
    this.#beginRecord()
    return true
  }
}

/** Reads the records of a complete text. */
export function* readCsv(text: string): Generator<CsvRecord, void, void> {
  const reader = new CsvReader()
  yield* reader.push(text)
  yield* reader.end()
}
