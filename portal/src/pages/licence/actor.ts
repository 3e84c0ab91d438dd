const words: Readonly<Record<string, string>> = {
  processor: 'the payment processor',
  sweep: 'the service',
  catalog: 'the service',
  product: 'the product',
  customer: 'the customer',
}

/** The person or program that did something, as part of a sentence. @param nameOf the name of an API key, if it is known */
export function nameOfActor(actor: string, nameOf: (keyId: string) => string | undefined): string {
  return words[actor] ?? nameOf(actor) ?? 'another API key'
}
