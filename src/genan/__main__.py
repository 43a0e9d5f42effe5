"""``python -m genan``."""

from genan.cli import main

raise SystemExit(main())
