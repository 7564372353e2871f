"""Writes a reply as one line: its type and value, or the class and text of its exception."""

import json
import re

FIELD = re.compile(r"(?:^|[ \r\n])([a-z0-9_-]+)[:=]")


def render(value, shape=False):
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "boolean" if shape else str(value).lower()
    if isinstance(value, int):
        return "integer" if shape else str(value)
    if isinstance(value, float):
        return "float" if shape else f"float {value}"
    if isinstance(value, (bytes, bytearray)):
        text = bytes(value).decode("latin-1")
        return "b" + (fields(text) if shape else json.dumps(text))
    if isinstance(value, str):
        return fields(value) if shape else json.dumps(value)
    if isinstance(value, dict):
        pairs = (f"{render(key)}: {render(item, shape)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(render(item, shape) for item in value) + "]"
    if isinstance(value, (set, frozenset)):
        return "set [" + ", ".join(sorted(render(item, shape) for item in value)) + "]"
    return type(value).__name__ + ("" if shape else f" {value}")


def fields(text):
    """Returns the names of the fields of a text such as that of INFO."""
    names = FIELD.findall(text)
    return "fields " + " ".join(names) if names else "text"
