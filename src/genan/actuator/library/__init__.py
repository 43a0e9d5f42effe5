"""Actuators that come with genan: an ensemble for the virtual PAMY2 (the README has the
command)."""

from importlib import resources
from pathlib import Path

from genan.errors import ActuatorError, listing


def bundled(name: str = "pamy2") -> Path:
    """Folder of the actuators called ``name``; what is not there is refused."""
    library = Path(str(resources.files(__package__)))
    folder = library / name
    if not (folder / "actuator.json").is_file():
        there = sorted(path.parent.name for path in library.glob("*/actuator.json"))
        raise ActuatorError(
            f"There are no bundled actuators {name!r}; there are: {listing(there) or 'none'}."
        )
    return folder
