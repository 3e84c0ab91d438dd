/** A file of keys, all on the plan `pro`, and the result of its import in the portal and the command line. */
export interface KeyFile {
  readonly name: string
  readonly bytes: Uint8Array
  /** Words of the reason for which the whole file is refused. */
  readonly refused?: string
  /** The rows that are imported. */
  readonly rows?: readonly (readonly [legacyKey: string, externalRef: string])[]
  /** The rows that are refused: the line, and words of the reason. */
  readonly flaws?: readonly (readonly [line: number, words: string])[]
  /** The lines in which blanks were removed. */
  readonly trimmed?: readonly number[]
  /** The columns that are not imported. */
  readonly ignored?: readonly string[]
}

const utf8 = (text: string) => new TextEncoder().encode(text)
const latin = (text: string) => Uint8Array.from(text, (character) => character.charCodeAt(0))

function utf16(text: string, { bigEndian, mark }: { bigEndian: boolean; mark: boolean }): Uint8Array {
  const units = Array.from({ length: text.length }, (_, at) => text.charCodeAt(at))
  if (mark) units.unshift(0xfeff)
  return Uint8Array.from(
    units.flatMap((unit) => (bigEndian ? [unit >> 8, unit & 255] : [unit & 255, unit >> 8])),
  )
}

const header = 'legacy_key,external_ref,plan_code\r\n'
const mueller = `${header}KEY-1,Müller,pro\r\nKEY-2,東京 😀,pro\r\n`
const muellerRows = [
  ['KEY-1', 'Müller'],
  ['KEY-2', '東京 😀'],
] as const

/** The files share keys: a test imports each into its own application. */
export const keyFiles: readonly KeyFile[] = [
  { name: 'UTF-8', bytes: utf8(mueller), rows: muellerRows },
  { name: 'UTF-8 with a byte order mark', bytes: utf8(`\uFEFF${mueller}`), rows: muellerRows },
  {
    name: 'UTF-16 LE with a mark',
    bytes: utf16(mueller, { bigEndian: false, mark: true }),
    rows: muellerRows,
  },
  {
    name: 'UTF-16 BE with a mark',
    bytes: utf16(mueller, { bigEndian: true, mark: true }),
    rows: muellerRows,
  },
  {
    name: 'UTF-16 LE without a mark',
    bytes: utf16(mueller, { bigEndian: false, mark: false }),
    rows: muellerRows,
  },
  {
    name: 'UTF-16 BE without a mark',
    bytes: utf16(mueller, { bigEndian: true, mark: false }),
    rows: muellerRows,
  },
  {
    name: 'UTF-16 that is cut off',
    bytes: utf16(mueller, { bigEndian: false, mark: true }).subarray(0, -1),
    refused: 'begins as UTF-16 but is not UTF-16 to its end',
  },
  {
    name: 'UTF-8 that is cut off',
    bytes: utf8(`${header}KEY-1,customer-1,pro\r\nKEY-2,東`).subarray(0, -1),
    refused: 'begins as UTF-8 but is not UTF-8 to its end',
  },
  {
    name: 'Windows-1252',
    bytes: latin(`${header}KEY-1,Muller,pro\r\nKEY-2,M\xfcller,pro\r\n`),
    refused: 'is not UTF-8, it looks like Windows-1252. Save it as UTF-8',
  },
  {
    name: 'Mac Roman',
    bytes: latin(`${header}KEY-1,M\x9fller,pro\r\n`),
    refused: 'looks like Mac Roman or a DOS code page',
  },
  {
    name: 'Windows-1251',
    bytes: latin(`${header}KEY-1,\xcf\xf0\xe8\xe2\xe5\xf2,pro\r\n`),
    refused: 'looks like the encoding of another script, such as Windows-1251',
  },
  {
    name: 'UTF-8 with one line in another encoding',
    bytes: Uint8Array.from([...utf8(mueller), ...latin('KEY-3,M\xfcller,pro\r\n')]),
    refused: 'looks like UTF-8 with parts in another encoding',
  },
  {
    name: 'UTF-32',
    bytes: Uint8Array.from([0xff, 0xfe, 0, 0, 0x6c, 0, 0, 0]),
    refused: 'looks like UTF-32',
  },
  {
    name: 'an Excel workbook',
    bytes: latin('PK\x03\x04\x14\0\x06\0'),
    refused: 'looks like an Excel workbook',
  },
  { name: 'nothing', bytes: utf8(''), refused: 'the file is empty' },
  { name: 'blank lines only', bytes: utf8('\uFEFF\r\n,,\r\n  \r\n'), refused: 'the file is empty' },
  { name: 'another table', bytes: utf8('key;customer\n1;2'), refused: 'there is no column legacy_key' },
  {
    name: 'a column twice',
    bytes: utf8('legacy_key,Legacy_Key,external_ref,plan_code\n1,2,3,4'),
    refused: 'the column legacy_key appears twice',
  },
  {
    name: 'a header in capitals, with blanks, in another order',
    bytes: utf8(' Plan_Code , LEGACY_KEY, Note ,External_Ref\npro,KEY-1,x,customer-1'),
    rows: [['KEY-1', 'customer-1']],
    ignored: ['Note'],
  },
  {
    name: 'blanks and invisible characters around values',
    bytes: utf8(
      `${header} KEY-1\u00a0, customer-1 ,pro\r\nKEY-2,customer-2,pro\r\n "KEY-3" ,"customer-3","pro "\r\n\u200bKEY-4,customer-4\u00ad,pro\u2060\r\nKEY-4\u200e,customer-5,pro\r\n`,
    ),
    rows: [
      ['KEY-1', 'customer-1'],
      ['KEY-2', 'customer-2'],
      ['KEY-3', 'customer-3'],
      ['KEY-4', 'customer-4'],
    ],
    flaws: [[6, 'line 5 has the same legacy_key with another external_ref (customer-4)']],
    trimmed: [2, 4, 5, 6],
  },
  {
    name: 'empty rows and trailing separators',
    bytes: utf8(
      'legacy_key,external_ref,plan_code,,\n,,,,\n\nKEY-1,customer-1,pro,,\nKEY-2,customer-2,pro\n , ,\t,,\nKEY-3,customer-3,pro,,,,\n',
    ),
    rows: [
      ['KEY-1', 'customer-1'],
      ['KEY-2', 'customer-2'],
      ['KEY-3', 'customer-3'],
    ],
  },
  {
    name: 'too few and too many values',
    bytes: utf8(`${header}KEY-1,customer-1\nKEY-2,customer-2,pro,more\nKEY-3,customer-3,pro\n`),
    rows: [['KEY-3', 'customer-3']],
    flaws: [
      [2, 'has 2 values where the first line has 3'],
      [3, 'has 4 values where the first line has 3'],
    ],
  },
  {
    name: 'sep=;',
    bytes: utf8('sep=;\r\nlegacy_key;external_ref;plan_code\r\nKEY,1;customer-1;pro\r\n'),
    rows: [['KEY,1', 'customer-1']],
  },
  {
    name: 'sep=| after a mark',
    bytes: utf8('\uFEFFSEP=|\nlegacy_key|external_ref|plan_code\nKEY;1|customer,1|pro\n'),
    rows: [['KEY;1', 'customer,1']],
  },
  {
    name: 'semicolons without sep=',
    bytes: utf8('legacy_key;external_ref;plan_code\nKEY,1;customer-1;pro\n'),
    rows: [['KEY,1', 'customer-1']],
  },
  {
    name: 'zeros that Excel keeps',
    bytes: utf8(`${header}="0012",customer-1,pro\n"=""0013""",customer-2,pro\n"=""0014""","x",pro\n`),
    rows: [
      ['0012', 'customer-1'],
      ['0013', 'customer-2'],
      ['0014', 'x'],
    ],
  },
  {
    name: 'numbers that a spreadsheet has shortened',
    bytes: utf8(
      `${header}1.23457E+15,customer-1,pro\nKEY-2,"1,23457E+15",pro\n1E+15,customer-3,pro\n12E4567,customer-4,pro\n1.5,customer-5,pro\n`,
    ),
    rows: [
      ['12E4567', 'customer-4'],
      ['1.5', 'customer-5'],
    ],
    flaws: [
      [2, 'legacy_key 1.23457E+15 is a number that a spreadsheet has shortened'],
      [3, 'external_ref 1,23457E+15 is a number that a spreadsheet has shortened'],
      [4, 'legacy_key 1E+15 is a number that a spreadsheet has shortened'],
    ],
  },
  {
    name: 'one key of two customers',
    bytes: utf8(
      `${header}KEY-1,customer-1,pro\nKEY-2,customer-2,pro\nKEY-1,customer-9,pro\n KEY-2,customer-2,team\nkey-1,customer-3,pro\n`,
    ),
    rows: [
      ['KEY-1', 'customer-1'],
      ['KEY-2', 'customer-2'],
      ['key-1', 'customer-3'],
    ],
    flaws: [
      [4, 'line 2 has the same legacy_key with another external_ref (customer-1)'],
      [5, 'line 3 has the same legacy_key with another plan_code (pro)'],
    ],
    trimmed: [5],
  },
  {
    name: 'all columns, and others',
    bytes: utf8(
      [
        'metadata.crm,legacy_key,Expires_On,seats,external_ref,updates_until,plan_code,MAX_ACTIVATIONS,Metadata.Owner,,expires on',
        'A-17,KEY-1,2099-01-31,9,customer-1,2030-02-28T12:00:00+01:00,pro,3,,,x',
        ',KEY-2,,,customer-2,,pro,,ann,,',
        ',KEY-1,2099-01-31,,customer-1,2030-02-28T12:00:00+01:00,pro,3,,,',
        'A-17,KEY-1,,,customer-1,2030-02-28T12:00:00+01:00,pro,3,,,',
        ',KEY-4,,,customer-4,,pro,three,,,',
      ].join('\n'),
    ),
    rows: [
      ['KEY-1', 'customer-1'],
      ['KEY-2', 'customer-2'],
    ],
    flaws: [
      [4, 'line 2 has the same legacy_key with another metadata.crm (A-17)'],
      [5, 'line 2 has the same legacy_key with another expires_on (2099-01-31)'],
      [6, 'max_activations three is no whole number'],
    ],
    ignored: ['seats', 'expires on'],
  },
  {
    name: 'a column of metadata twice',
    bytes: utf8('legacy_key,external_ref,plan_code,metadata.a,METADATA.a\n1,2,3,4,5'),
    refused: 'the column metadata.a appears twice',
  },
  {
    name: 'quotes and lines in values',
    bytes: utf8(`${header}"KEY ""1""","customer\r\n1",pro\r\n1,x"y",pro\r\nKEY-3,customer-3,pro\r\n`),
    rows: [
      ['KEY "1"', 'customer\n1'],
      ['KEY-3', 'customer-3'],
    ],
    flaws: [[4, 'a quote stands inside a value']],
  },
  {
    name: 'a character that cannot be stored',
    bytes: utf8(`${header}KEY\0-1,customer-1,pro\nKEY-2,customer-2,pro\n`),
    rows: [['KEY-2', 'customer-2']],
    flaws: [[2, 'has a character that cannot be stored (U+0000)']],
  },
]
