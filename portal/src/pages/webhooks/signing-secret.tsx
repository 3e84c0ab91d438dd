import { SecretOnce } from '../../parts/copy.tsx'

interface SigningSecretProps {
  secret: string | null | undefined
  onClose: () => void
}

export function SigningSecret(props: SigningSecretProps) {
  return (
    <SecretOnce
      title="Signing secret"
      copy="Copy secret"
      use="Your backend verifies every delivery with it: keep it where the backend finds it."
      {...props}
    />
  )
}
