import { useRef, useState } from 'react'
import { Button } from './button.tsx'
import styles from './copy.module.css'

interface CopyProps {
  /** The name of the button: "Copy key". */
  name: string
  text: string
}

/** A text to be copied, with its button. */
export function Copy({ name, text }: CopyProps) {
  const shown = useRef<HTMLElement>(null)
  const [said, setSaid] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setSaid('Copied')
    } catch {
      // Without https there is no clipboard; what is selected can be copied by hand.
      if (shown.current) getSelection()?.selectAllChildren(shown.current)
      setSaid('Selected: copy it with the keyboard')
    }
  }
  return (
    <div className={styles.copy}>
      <code ref={shown} className={styles.text}>
        {text}
      </code>
      <Button onClick={() => void copy()}>{name}</Button>
      <span role="status" className={styles.said}>
        {said}
      </span>
    </div>
  )
}
