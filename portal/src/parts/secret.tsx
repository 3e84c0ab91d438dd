import { Button } from './button.tsx'
import { Copy } from './copy.tsx'
import { Dialog } from './dialog.tsx'
import styles from './secret.module.css'

interface SecretProps {
  /** The dialog's name: "Signing secret". */
  title: string
  /** The name of the button: "Copy secret". */
  copy: string
  /** What to do with it. */
  use: string
  /** Shown while it is there; an empty one was shown before, and is no longer known. */
  secret: string | null | undefined
  onClose: () => void
}

/** What the service shows once. It is kept nowhere, and closes by its button alone. */
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
