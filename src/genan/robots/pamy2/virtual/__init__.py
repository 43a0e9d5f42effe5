"""What plays the real PAMY2? Muscles, valves, tendons, encoders, drift; a cup, a racket, balls.
Nothing that learns or simulates may import it: what crosses is recorded q and u, and commands."""

import tomllib
from pathlib import Path

DESIGN = tomllib.loads(Path(__file__).with_name("design.toml").read_text(encoding="utf-8"))
"""Its numbers, each with where it comes from."""
