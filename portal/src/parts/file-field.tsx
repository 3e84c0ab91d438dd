import { useEffect, useId, useRef, type ReactNode } from 'react'
import styles from './file-field.module.css'

interface FileFieldProps {
  label: string
  hint: ReactNode
  /** As the browser's dialog takes it: ".csv". */
  accept: string
  file: File | null
  onChoose: (file: File) => void
}

/** A field for one file, which can be dropped on it too. It shows its file again when its page is shown again. */
export function FileField({ label, hint, accept, file, onChoose }: FileFieldProps) {
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (!input.current || !file || input.current.files?.[0] === file) return
    const chosen = new DataTransfer()
    chosen.items.add(file)
    input.current.files = chosen.files
  }, [file])
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      <input
        ref={input}
        id={id}
        type="file"
        accept={accept}
        aria-describedby={`${id}-hint`}
        className={styles.input}
        onChange={({ target }) => {
          const [chosen] = target.files ?? []
          if (chosen) onChoose(chosen)
        }}
      />
      <div id={`${id}-hint`} className={styles.hint}>
        {hint}
      </div>
    </div>
  )
}
