// Verify a receipt with sigstore's own library:  node verify.mjs RECEIPT KEY.pub
//
// The key comes from the caller, as for `power verify --key`. Prints one JSON object:
// {"verified": true, "hint": ...} or {"verified": false, "code": ..., "message": ...}.
import { createHash, createPublicKey } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { bundleFromJSON } from '@sigstore/bundle';
import { Verifier, toSignedEntity, toTrustMaterial } from '@sigstore/verify';

const NO_ROOTS = { certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [] };
// A key of one's own has neither a certificate nor a log: the signature alone decides.
const NO_LOGS = { ctlogThreshold: 0, tlogThreshold: 0, timestampThreshold: 0 };

function verify(receiptPath, keyPath) {
  const der = createPublicKey(readFileSync(keyPath)).export({ type: 'spki', format: 'der' });
  const hint = createHash('sha256').update(der).digest('base64');
  const trust = toTrustMaterial(NO_ROOTS, { [hint]: { rawBytes: der } });
  const bundle = bundleFromJSON(JSON.parse(readFileSync(receiptPath, 'utf8')));
  new Verifier(trust, NO_LOGS).verify(toSignedEntity(bundle));
  return { verified: true, hint };
}

const [receiptPath, keyPath] = process.argv.slice(2);
let result;
try {
  result = verify(receiptPath, keyPath);
} catch (error) {
  result = { verified: false, code: error.code ?? error.name, message: error.message };
}
console.log(JSON.stringify(result));
