"""Pairs of Ed25519 keys, as ``ssh-keygen -t ed25519`` writes them."""

from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization as forms
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def write_keys(path: Path, *, passphrase: bytes = b"", pem: bool = False, key: Any = None) -> Path:
    """Write the private key at ``path`` and the public one next to it; returns the latter."""
    key = key or Ed25519PrivateKey.generate()
    lock: Any = forms.BestAvailableEncryption(passphrase) if passphrase else forms.NoEncryption()
    form = forms.PrivateFormat.PKCS8 if pem else forms.PrivateFormat.OpenSSH
    path.write_bytes(key.private_bytes(forms.Encoding.PEM, form, lock))
    written = forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH
    if pem:
        written = forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
    public = path.with_name(f"{path.name}.pub")
    public.write_bytes(key.public_key().public_bytes(*written) + (b"" if pem else b" me@lab\n"))
    return public
