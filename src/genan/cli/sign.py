"""``genan sign``."""

import os
from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Sign:
    """Vouch for fitted actuators or a policy: sign them for those who --require-signature."""

    folder: tyro.conf.Positional[Path]  # The artifact: of 'genan fit', 'train' or 'export'.
    key: Path
    """The private key: of 'ssh-keygen -t ed25519', or in PEM. Its .pub is for those who check."""

    def run(self) -> None:
        from genan import files, signature
        from genan.actuator.contract import KIND as ACTUATORS
        from genan.rl.contract import KIND as POLICY

        os.environ.pop(signature.VARIABLE, None)  # what is to be signed need not be yet
        kind = POLICY if (self.folder / POLICY.contract).exists() else ACTUATORS
        kind.read(self.folder)
        content, signer = signature.make(kind.contents(self.folder, *kind.more), self.key)
        files.write_atomically(self.folder / signature.SIGNATURE, content)
        print(f"Signed {self.folder} with the key {signer}.")
