import { Link } from '@tanstack/react-router'

interface CustomerProps {
  licence: string | null
  reference: string
}

/** A customer's reference, and the way to the licence. */
export function Customer({ licence, reference }: CustomerProps) {
  if (licence === null) return reference
  return (
    <Link to="/licences/$licenceId" params={{ licenceId: licence }}>
      {reference}
    </Link>
  )
}
