import { Link } from '@tanstack/react-router'
import type { Licence } from '../../api/licences.ts'
import type { Column } from '../../parts/table.tsx'
import { Status, Time } from '../../parts/text.tsx'
import styles from './licences.module.css'

export function licenceColumns(planName: (planId: string) => string): Column<Licence>[] {
  return [
    {
      name: 'Customer reference',
      wrap: true,
      cell: ({ id, external_ref }) => (
        <Link to="/licences/$licenceId" params={{ licenceId: id }}>
          {external_ref}
        </Link>
      ),
    },
    { name: 'Status', cell: ({ status }) => <Status of={status} /> },
    { name: 'Plan', cell: ({ plan_id }) => planName(plan_id) },
    { name: 'Key', cell: ({ key }) => <code className={styles.key}>{key}</code> },
    { name: 'Expires on', cell: ({ expires_on }) => <Time at={expires_on} to="day" none="never" /> },
    { name: 'Created', cell: ({ created_at }) => <Time at={created_at} /> },
  ]
}
