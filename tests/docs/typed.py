"""The very lines of the pages, for the tests that run their verbs: small, and in temporary
folders."""

import shlex
from collections.abc import Mapping
from functools import cache

from tests.docs.blocks import PAGES, Command, steps


@cache
def lines() -> frozenset[str]:
    """Every line to type, of every page, its words a space apart."""
    return frozenset(
        " ".join(step.words) for page in PAGES for step in steps(page) if isinstance(step, Command)
    )


def typed(
    line: str, *more: object, instead: Mapping[str, object] | None = None, **changed: object
) -> list[str]:
    """What follows ``genan``, or ``python``, in a line that stands on a page exactly so.

    Nothing can be taken out of the line: values are changed, so that it runs here and at once, and
    flags are added.

    Args:
        line: as it is on the page, comment and line breaks aside.
        more: words that are added to it; a flag that the line has already is to be changed instead.
        instead: words for words that stand without a flag: the recording of ``genan view``, a
            study's name.
        changed: values of the line's own flags: ``out=folder``, ``goal=(10, 20)``;
            ``ppo__num_minibatches=2`` is ``--ppo.num-minibatches 2``.

    Returns:
        Arguments for ``genan.cli.main``, or for ``python``.
    """
    words = shlex.split(line)
    assert " ".join(words) in lines(), f"no page has the line: {line}"
    assert words[0] in ("genan", "python"), f"neither genan nor python is run by the line: {line}"
    again = {str(word) for word in more if str(word).startswith("--")} & set(words)
    assert not again, f"the line has {', '.join(sorted(again))} already: {line}"
    for old, new in (instead or {}).items():
        assert words.count(old) == 1, f"{old!r} does not stand once in the line: {line}"
        words[words.index(old)] = str(new)
    for name, value in changed.items():
        flag = "--" + name.replace("__", ".").replace("_", "-")
        assert words.count(flag) == 1, f"there is no {flag} in the line: {line}"
        place = words.index(flag) + 1
        end = next((k for k in range(place, len(words)) if words[k].startswith("--")), len(words))
        assert end > place, f"{flag} has no value in the line: {line}"
        words[place:end] = [
            str(part) for part in (value if isinstance(value, (tuple, list)) else (value,))
        ]
    return words[1:] + [str(word) for word in more]
