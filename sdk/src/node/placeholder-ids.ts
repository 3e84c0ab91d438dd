/**
 * Texts that stand where a machine's id should be, on many machines alike: systemd's before the first boot, and the
 * defaults of firmware whose maker wrote no id. Letters and digits only, in lower case.
 */
const PLACEHOLDERS = new Set([
  'uninitialized',
  'none',
  'null',
  'unknown',
  'na',
  'notapplicable',
  'notavailable',
  'notspecified',
  'notsettable',
  'invalid',
  'default',
  'defaultstring',
  'systemserialnumber',
  'serialnumber',
  'tobefilledbyoem',
  'oem',
  'oemstring',
  '03000200040005000006000700080009',
  '00020003000400050006000700080009',
  '123456781234567890abcddeefaabbcc',
  '1234567812345678123456789abcdef0',
  '12345678901234567890123456789012',
  '0123456789abcdef0123456789abcdef',
  '4c4c454400002010802080c04f202020',
  'fefefefefefefefefefefefefefefefe',
])

/** Whether a text is blank, a placeholder, or one character repeated (zeros): no id of one machine. */
export function isPlaceholderId(id: string): boolean {
  const plain = id.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
  return /^(.?)\1*$/.test(plain) || PLACEHOLDERS.has(plain)
}
