/** What only Node and Electron have: never imported by the other entries. */
export { fileStore, type FileStore } from './node/file-store.ts'
export { machineFingerprint, type MachineFingerprintOptions } from './node/machine-fingerprint.ts'
