"""The command line: ``genan VERB``. One file per verb, imported only when that verb is used."""

import importlib
import sys
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from genan import __version__

VERBS = tomllib.loads(Path(__file__).with_name("verbs.toml").read_text(encoding="utf-8"))
"""Verbs in the order of the work, with the line that ``genan --help`` shows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0 done, 2 refused, 130 interrupted."""
    verb, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if verb in ("-h", "--help", "help"):
        usage = Path(__file__).with_name("usage.txt").read_text(encoding="utf-8")
        verbs = "\n".join(f"  {name:<9}  {line}" for name, line in VERBS.items())
        print(usage.format(verbs=verbs), end="")
        return 0
    if verb in ("-V", "--version"):
        print(f"genan {__version__}")
        return 0
    import logging

    from genan.cli.terminal import say
    from genan.errors import GenanError
    from genan.signature import required

    # Show what the package says about itself (compiling, mostly), one line each.
    handler: Any = logging.Handler()
    handler.emit = lambda record: say(record.getMessage(), "dim", stderr=True)
    log = logging.getLogger("genan")
    log.setLevel(logging.INFO)
    log.handlers = [handler]
    try:
        asked = command(verb, rest)
        with required(getattr(asked, "require_signature", None)):
            return int(asked.run() or 0)
    except KeyboardInterrupt as stop:  # a verb that was asked to stop says what is safe
        print(str(stop) or "\ngenan: interrupted.", file=sys.stderr)
        return 130
    except GenanError as error:
        reason = str(error)
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        reason = f"The system refused to go on{where}: {error.strerror or error}"
        reason += "; fix that and run again."
    except MemoryError:
        reason = "Out of memory; ask for less at once or close other programs."
    print(f"genan: {reason}", file=sys.stderr)
    return 2


def command(verb: str, arguments: Sequence[str]) -> Any:
    """The flags that ``arguments`` give to a verb; ``run()`` does what they ask for, and returns
    the exit code where that is not 0."""
    import tyro

    from genan.errors import refuse

    near = get_close_matches(verb, VERBS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "'genan --help' lists the verbs."
    refuse(
        (verb in ("study", "search"), f"The experiments of 'genan {verb}' are in a clone of the "
         "repository: 'python -m experiments' lists and runs them."),
        (verb not in VERBS, f"There is no verb {verb!r}; {hint}"),
    )  # fmt: skip
    file = "import_" if verb == "import" else verb.replace("-", "_")
    kind = getattr(importlib.import_module(f"genan.cli.{file}"), verb.title().replace("-", ""))
    if hasattr(kind, "parse"):  # its flags depend on each other
        return kind.parse(arguments)
    return tyro.cli(kind, prog=f"genan {verb}", args=arguments)
