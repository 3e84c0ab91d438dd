/** The parts that need Node or Electron. The other entries never import them. */
export { fileStore, type FileStore } from './node/file-store.ts'
export { machineFingerprint, type MachineFingerprintOptions } from './node/machine-fingerprint.ts'
