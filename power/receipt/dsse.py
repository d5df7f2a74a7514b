"""Dead Simple Signing Envelope (DSSE v1.0.2): the bytes that are signed, and their envelope."""

from __future__ import annotations

from dataclasses import dataclass

from power.receipt import keys

PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload as signed, opaque, with its one signature.

    `keyid` is a hint and proves nothing: it only chooses among keys that the
    verifier holds already.
    """

    payload_type: str
    payload: bytes
    signature: bytes
    keyid: str

    def signed_by(self, public: keys.PublicKey) -> bool:
        """Whether the signature is over this payload and type, by `public`."""
        return keys.signature_holds(public, self.signature, pae(self.payload_type, self.payload))


def pae(payload_type: str, payload: bytes) -> bytes:
    """Pre-authentication encoding: `DSSEv1 LEN type LEN payload`, each length in bytes."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def seal(payload: bytes, private: keys.PrivateKey, payload_type: str = PAYLOAD_TYPE) -> Envelope:
    """Sign `payload` exactly as it is."""
    signature = keys.sign(private, pae(payload_type, payload))
    return Envelope(payload_type, payload, signature, keys.keyid(private.public_key()))
