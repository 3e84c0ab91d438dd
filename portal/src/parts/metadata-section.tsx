import { useState } from 'react'
import { useAddress } from '../address.ts'
import { Button } from './button.tsx'
import { Dialog } from './dialog.tsx'
import { Form } from './form.tsx'
import { changeOfMetadata, MetadataFields, MetadataTable, readMetadata, type Metadata } from './metadata.tsx'
import { Section } from './page.tsx'

interface MetadataSectionProps {
  entries: Metadata
  /** Undefined if the signed-in key may not change it. */
  save: ((change: Record<string, string | null>) => Promise<unknown>) | undefined
}

/** The vendor's metadata, with a dialog to edit it. */
export function MetadataSection({ entries, save }: MetadataSectionProps) {
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Section
      title="Metadata"
      actions={
        save && (
          <>
            <Button onClick={() => setAddress({ open: 'metadata' })}>Edit metadata</Button>
            <Dialog title="Edit metadata" open={open === 'metadata'} onClose={close}>
              <EditForm entries={entries} save={save} onDone={close} />
            </Dialog>
          </>
        )
      }
    >
      <MetadataTable
        entries={entries}
        empty="Your own names and values, such as crm_id: there are none yet."
      />
    </Section>
  )
}

interface EditFormProps {
  entries: Metadata
  save: NonNullable<MetadataSectionProps['save']>
  onDone: () => void
}

function EditForm({ entries, save, onDone }: EditFormProps) {
  // The entries when the dialog opened. Unchanged entries are not sent, because somebody else may change them meanwhile.
  const [before] = useState(entries)
  return (
    <Form
      submit="Save"
      run={async (values) => {
        const change = changeOfMetadata(before, readMetadata(values))
        if (change) await save(change)
        onDone()
      }}
    >
      <MetadataFields entries={before} />
    </Form>
  )
}
