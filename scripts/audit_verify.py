#!/usr/bin/env python3
"""Verify a proof of 'tollgate audit prove': audit_verify.py PROOF.json [KEY]

KEY is the verifier key that you know; without it, the one in the proof is taken.
It needs Python 3.8 and the package cryptography, and nothing of Tollgate."""
import base64, hashlib, json, sys
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def main(path, key=None):
    proof = json.load(open(path, encoding="utf-8"))
    name, key_id, public = (key or proof["key"]).split("+", 2)
    raw = base64.b64decode(public)  # 1 (Ed25519), and the key
    body, _, signatures = proof["note"].partition("\n\n")
    body = body + "\n"
    origin, size, root = body.split("\n")[:3]
    assert raw[0] == 1 and hashlib.sha256(name.encode() + b"\n" + raw).digest()[:4].hex() == key_id, "no verifier key"
    assert origin == name, "the checkpoint is of another tree than the key"
    ours = [s.split(" ")[2] for s in signatures.splitlines() if s.startswith("\u2014 " + name + " ")]
    signed = [s for s in map(base64.b64decode, ours) if s[:4].hex() == key_id]
    assert len(signed) == 1, "the checkpoint is not signed by the key"
    Ed25519PublicKey.from_public_bytes(raw[1:]).verify(signed[0][4:], body.encode())
    # RFC 9162, section 2.1.3.2
    at, last = proof["index"], int(size) - 1
    assert 0 <= at <= last, "the tree has no such leaf"
    node = hashlib.sha256(b"\x00" + proof["entry"].encode()).digest()
    for beside in map(base64.b64decode, proof["hashes"]):
        assert last > 0, "the proof has too many hashes"
        left = at % 2 == 1 or at == last
        node = hashlib.sha256(b"\x01" + (beside + node if left else node + beside)).digest()
        while left and at % 2 == 0 and at > 0:
            at, last = at >> 1, last >> 1
        at, last = at >> 1, last >> 1
    assert last == 0 and node == base64.b64decode(root), "the entry is not in the tree"
    print("ok: leaf", proof["index"], "of", size, "in", origin, proof["entry"])


main(*sys.argv[1:])
