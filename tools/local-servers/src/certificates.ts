import 'reflect-metadata'
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509'
import { randomBytes, webcrypto } from 'node:crypto'
import { isIP } from 'node:net'

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const DAY_MS = 86_400_000

/** A server's certificate with its key, and the authority that signed it; all PEM. */
interface TestCertificate {
  authority: string
  certificate: string
  key: string
}

/**
 * Makes a certificate authority and a server certificate that it signs, valid for a month. They are for HTTPS
 * receivers on this machine. The authority's key is not kept.
 *
 * @param hosts names and addresses that the certificate is for
 * @param endsAt the end of the server certificate, which may be past
 */
export async function makeCertificate(
  hosts: string[],
  endsAt = new Date(Date.now() + 30 * DAY_MS),
): Promise<TestCertificate> {
  const authorityKeys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const keys = await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const validity = {
    notBefore: new Date(Date.now() - 2 * DAY_MS),
    notAfter: new Date(Date.now() + 30 * DAY_MS),
  }
  const authority = await X509CertificateGenerator.createSelfSigned({
    ...validity,
    serialNumber: serialNumber(),
    // The name is unique, because a client finds the authority of a certificate by the issuer's name.
    name: `CN=Licensing local authority ${serialNumber()}`,
    signingAlgorithm: ALGORITHM,
    keys: authorityKeys,
    extensions: [
      new BasicConstraintsExtension(true, 0, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
      await SubjectKeyIdentifierExtension.create(authorityKeys.publicKey),
    ],
  })
  const certificate = await X509CertificateGenerator.create({
    ...validity,
    notAfter: endsAt,
    serialNumber: serialNumber(),
    subject: `CN=${hosts[0]}`,
    issuer: authority.subject,
    signingAlgorithm: ALGORITHM,
    signingKey: authorityKeys.privateKey,
    publicKey: keys.publicKey,
    extensions: [
      new BasicConstraintsExtension(false, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
      new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
      new SubjectAlternativeNameExtension(
        hosts.map((value) => ({ type: isIP(value) === 0 ? ('dns' as const) : ('ip' as const), value })),
      ),
    ],
  })
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey)).toString('base64')
  return {
    authority: authority.toString('pem'),
    certificate: certificate.toString('pem'),
    key: `-----BEGIN PRIVATE KEY-----\n${pkcs8}\n-----END PRIVATE KEY-----\n`,
  }
}

/** 16 random bytes, as a positive number, as RFC 5280 requires. */
function serialNumber(): string {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40
  return bytes.toString('hex')
}
