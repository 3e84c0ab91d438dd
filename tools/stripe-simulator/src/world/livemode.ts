/** A copy that says everywhere whether it is about real money. */
export function withLivemode<Value extends object>(livemode: boolean, value: Value): Value {
  if (!livemode) return structuredClone(value)
  return JSON.parse(JSON.stringify(value), (key, member: unknown) =>
    key === 'livemode' ? true : member,
  ) as Value
}
