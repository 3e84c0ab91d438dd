import { implement } from '@licensing/grpc/server'
import { RootKeyService } from '@licensing/proto/root-keys'
import type { RootKeyDependencies } from './root-key-dependencies.ts'
import { getRootKeys } from './signing-keys/get-root-keys.ts'
import { retireRootKeys } from './signing-keys/retire-root-keys.ts'
import { rotateRootKey } from './signing-keys/rotate-root-key.ts'

export function rootKeyService(deps: RootKeyDependencies) {
  return implement(RootKeyService, {
    getRootKeys: (request) => getRootKeys(deps, request),
    rotateRootKey: (request) => rotateRootKey(deps, request),
    retireRootKeys: (request) => retireRootKeys(deps, request),
  })
}
