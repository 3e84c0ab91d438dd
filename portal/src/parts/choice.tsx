import styles from './choice.module.css'

interface ChoiceProps<Value extends string> {
  label: string
  options: readonly (readonly [value: Value, text: string])[]
  chosen: Value
  onChoose: (value: Value) => void
}

/** A choice of one value. All options are visible. */
export function Choice<Value extends string>({ label, options, chosen, onChoose }: ChoiceProps<Value>) {
  return (
    <div role="group" aria-label={label} className={styles.choice}>
      {options.map(([value, text]) => (
        <button key={value} type="button" aria-pressed={value === chosen} onClick={() => onChoose(value)}>
          {text}
        </button>
      ))}
    </div>
  )
}
