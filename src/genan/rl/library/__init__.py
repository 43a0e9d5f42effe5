"""Policies that come with genan, trained on the bundled actuators; the README has the commands."""

from importlib import resources
from pathlib import Path

from genan.errors import GenanError, listing


def bundled(task: str) -> Path:
    """Folder of the policy for ``task``; what is not there is refused."""
    library = Path(str(resources.files(__package__)))
    folder = library / task
    if not (folder / "policy.json").is_file():
        there = sorted(path.parent.name for path in library.glob("*/policy.json"))
        raise GenanError(
            f"There is no bundled policy for {task!r}; there are: {listing(there) or 'none'}."
        )
    return folder
