import { useEffect, useRef, useState } from 'react'
import { Button } from './button.tsx'
import styles from './copy.module.css'
import { Dialog } from './dialog.tsx'

interface CopyProps {
  /** The name of the button: "Copy key". */
  name: string
  text: string
  /** Copies the text also when it is first shown. */
  isCopiedAtOnce?: boolean
}

/** A text to be copied, with its button. */
export function Copy({ name, text, isCopiedAtOnce = false }: CopyProps) {
  const shown = useRef<HTMLElement>(null)
  const [said, setSaid] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setSaid('Copied')
    } catch {
      // Without https there is no clipboard. The selected text can be copied by hand.
      if (shown.current) getSelection()?.selectAllChildren(shown.current)
      setSaid('Selected: copy it with the keyboard')
    }
  }
  useEffect(() => {
    if (isCopiedAtOnce)
      void navigator.clipboard?.writeText(text).then(
        () => setSaid('Copied'),
        () => undefined,
      )
  }, [isCopiedAtOnce, text])
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

interface SecretProps {
  /** The dialog's name: "Signing secret". */
  title: string
  /** The name of the button: "Copy secret". */
  copy: string
  /** Instructions for its use. */
  use: string
  /** The dialog is open while there is a secret. If it is empty, the secret was shown before and cannot be shown again. */
  secret: string | null | undefined
  onClose: () => void
}

/** A secret that the service shows once. It is not stored, and the dialog closes only by its button. */
export function SecretOnce({ title, copy, use, secret, onClose }: SecretProps) {
  return (
    <Dialog title={title} open={secret !== undefined} onClose={onClose} stays>
      {secret ? (
        <>
          <p>{use} It is shown only now.</p>
          <Copy name={copy} text={secret} />
        </>
      ) : (
        <p>It was shown in the first response to this request. If you did not keep it, create a new one.</p>
      )}
      <div className={styles.buttons}>
        <Button kind="primary" onClick={onClose}>
          Done
        </Button>
      </div>
    </Dialog>
  )
}
