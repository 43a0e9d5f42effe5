"""Who vouches for an artifact: an Ed25519 signature next to it, of the checksums of its files. A
seal finds damage, and anyone can make one; for a signature one needs the private key of a lab."""

import base64
import getpass
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from genan.errors import GenanError, SettingError, import_extra, refuse

SIGNATURE, VARIABLE = "signature.json", "GENAN_REQUIRE_SIGNATURE"
_PREFIX = b"genan artifact signature 1\n"  # So that no other signature can be taken for one.


@contextmanager
def required(keys: Sequence[Path | str] | None) -> Iterator[None]:
    """In this block, and in processes started there, every artifact that is read must be signed by
    one of these public ``keys`` (files); None: by one of those in GENAN_REQUIRE_SIGNATURE."""
    before = os.environ.get(VARIABLE, "")
    if keys is not None:
        refuse((not keys, "A signature is required, but no key is given that it could be by."))
        os.environ[VARIABLE] = os.pathsep.join(str(Path(key).absolute()) for key in keys)
    try:
        yield
    finally:
        os.environ[VARIABLE] = before


def accepted() -> dict[str, Any]:
    """The public keys, by name, one of which must have signed what is read; none: nobody must."""
    return dict(map(load_key, filter(None, os.environ.get(VARIABLE, "").split(os.pathsep))))


def make(contents: Mapping[str, bytes], private: Path) -> tuple[bytes, str]:
    """The signature of files by a ``private`` key, as a file, and the name of the key."""
    signer, key = load_key(private, "private")
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    signature = key.sign(_PREFIX + json.dumps(files, sort_keys=True).encode())
    found = {"files": files, "key": signer, "signature": base64.b64encode(signature).decode()}
    return (json.dumps(found, indent=1) + "\n").encode(), signer


def check(path: Path, content: bytes, keys: Mapping[str, Any], error: type[GenanError]) -> None:
    """Refuse the ``content`` of an artifact's file that none of ``keys`` has signed."""
    misfit = f"{path} and the {SIGNATURE} next to it do not belong together, or are damaged"
    try:
        found = json.loads(path.with_name(SIGNATURE).read_bytes())
        files, signer = found["files"], str(found["key"])
        fault = f"{path.parent} is signed by {signer[:60]!r}"
        if signer in keys:
            signed = _PREFIX + json.dumps(files, sort_keys=True).encode()
            keys[signer].verify(base64.b64decode(found["signature"]), signed)
            fault = "" if files[path.name] == hashlib.sha256(content).hexdigest() else misfit
    except FileNotFoundError:
        fault = f"{path.parent} is not signed"
    except Exception:  # of whatever a forger has written
        fault = misfit
    todo = f"a signature by {' or '.join(keys)} is required; take what they signed, or let them"
    refuse((fault, f"{fault}, and {todo} sign this."), error=error)


def load_key(path: Path | str, kind: str = "public") -> tuple[str, Any]:
    """Name (what ``ssh-keygen -l`` shows) and Ed25519 key in a file of OpenSSH or PEM."""
    forms = import_extra("cryptography.hazmat.primitives.serialization", "Signatures", "sign")
    try:
        content = Path(path).read_bytes()
        pem = content.startswith(b"-----") and b"OPENSSH" not in content
        load = getattr(forms, f"load_{'pem' if pem else 'ssh'}_{kind}_key")
        try:
            key = load(content, *[None] * (kind == "private"))
        except TypeError:  # it needs a passphrase
            key = load(content, getpass.getpass(f"Passphrase of {path}: ").encode())
        public = key.public_key() if kind == "private" else key
        line = public.public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH).decode()
        if not line.startswith("ssh-ed25519 "):
            raise ValueError(f"it is of the kind {line.split()[0]}")
    except Exception as error:  # cryptography's have no base class of their own
        wanted = f"Expected an Ed25519 {kind} key in {path}, of 'ssh-keygen -t ed25519' or in PEM"
        raise SettingError(f"{wanted} ({error}).") from None
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}", key
