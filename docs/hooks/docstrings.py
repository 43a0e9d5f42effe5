"""How the reference reads docstrings: fields of a class are one list, comments next to them count,
and brackets side by side are no link of Markdown."""

import re
import textwrap
from typing import Any

from griffe import Class, Docstring, Extension, Object

#: What ends one pair of brackets and begins the next, as in ``[..., nq] [rad or m]``.
SIDE_BY_SIDE = re.compile(r"\](\s?)\[")


class Fields(Extension):
    """Lists a class's fields in its docstring instead of under a heading each."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for every module, class, function and attribute, once all of them are known."""
        if isinstance(obj, Class):
            list_fields(obj)
        elif obj.is_attribute and not obj.docstring and obj.parent and obj.parent.is_module:
            obj.docstring = Docstring(words, parent=obj) if (words := comment(obj)) else None
        if obj.docstring:
            # Markdown would take the second of two pairs of brackets for the name of a link.
            obj.docstring.value = SIDE_BY_SIDE.sub(r"]\1\\[", obj.docstring.value)


def list_fields(cls: Class) -> None:
    """Move what is said about each field into the section "Attributes" of its class."""
    lines = []
    for name, field in cls.members.items():
        if field.is_alias or not field.is_attribute or "property" in field.labels:
            continue
        words = field.docstring.value if field.docstring else comment(field)
        field.docstring = None
        if words and not name.startswith("_"):
            lines.append(textwrap.indent(f"{name}: {words}", " " * 8).removeprefix(" " * 4))
    if lines:
        cls.docstring = cls.docstring or Docstring("", parent=cls, parser="google")
        cls.docstring.value = "\n".join((cls.docstring.value, "", "Attributes:", *lines))


def comment(attribute: Object) -> str:
    """The comment on an attribute's line; '' where there is none."""
    if not attribute.lineno:
        return ""
    line = attribute.lines_collection[attribute.filepath][attribute.lineno - 1]
    return line.partition("  # ")[2]
