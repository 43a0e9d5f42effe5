"""How the reference reads docstrings: comments next to fields count, and brackets side by side are
no link of Markdown."""

import re
from typing import Any

from griffe import Docstring, Extension, Object

#: What ends one pair of brackets and begins the next, as in ``[..., nq] [rad or m]``.
SIDE_BY_SIDE = re.compile(r"\](\s?)\[")


class Brackets(Extension):
    """Escapes the second of two pairs of brackets, which Markdown would take for the name of a
    link."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.is_attribute and not obj.docstring and obj.lineno:
            _, _, comment = obj.lines_collection[obj.filepath][obj.lineno - 1].partition("  # ")
            obj.docstring = Docstring(comment, parent=obj) if comment else None
        if obj.docstring:
            obj.docstring.value = SIDE_BY_SIDE.sub(r"]\1\\[", obj.docstring.value)
