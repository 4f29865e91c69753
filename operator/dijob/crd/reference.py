"""Generates docs/reference.md: each field of a DIJob with its type, bounds and meaning.

The page is generated from the CRD's schema, not from the model. So it shows the defaults and bounds
that apply in the cluster.
"""

import re
from collections.abc import Iterator

from dijob import names
from dijob.crd.rules import RULES
from dijob.crd.schema import Schema

_HEAD = f"""# Reference: {names.KIND} ({names.API_VERSION})

Generated from `operator/dijob/api/model.py` by `make crds`; do not edit. `kubectl explain
dijob.spec` shows the same text. `template.spec` also accepts all other fields of a pod's spec.
"""
_TABLE = "| field | type | meaning |\n|---|---|---|\n"


def reference_page(schema: Schema) -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    for name in ("spec", "status"):
        rows = "\n".join(_field_rows(schema["properties"][name], name))
        parts.append(f"## {name}\n\n{_TABLE}{rows}\n")
    parts.append(
        "## Rules beyond types and bounds\n\nThe apiserver rejects a DIJob that breaks one of these"
        " rules, with the message shown.\n"
    )
    sentences = (
        f"- {_format_place(path)}: {_escape_patterns(rule.message)}"
        for path, group in RULES.items()
        for rule in group
    )
    parts.append("\n".join(sentences))
    return "\n".join(parts) + "\n"


def _escape_patterns(sentence: str) -> str:
    """Return a message with its regular expressions escaped, so that Markdown shows them as
    text."""
    return re.sub(r"([\[\]*])", r"\\\1", sentence)


def _format_place(path: str) -> str:
    return f"`{path}`" if path else "the object"


def _field_rows(schema: Schema, path: str) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        meaning = field.get("description", "").replace("|", "\\|")
        yield f"| `{here}` | {_describe_type(field)} | {meaning} |"
        yield from _field_rows(field.get("items", field), here + ("[]" if "items" in field else ""))


def _describe_type(field: Schema) -> str:
    # The phase is empty before the first status, so its enum contains "", which a page cannot show.
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"] if value) + _describe_default(
            field
        )
    kind: str = field["type"]
    if kind == "array":
        kind = f"list of {field['items']['type']}s, at most {field['maxItems']}"
    elif "additionalProperties" in field:
        kind = f"map of {field['additionalProperties']['type']}s, at most {field['maxProperties']}"
    elif "maximum" in field and field["maximum"] < 2**31 - 1:
        kind = f"{kind}, {field['minimum']} to {field['maximum']}"
    elif "maxLength" in field:
        kind = f"{kind}, at most {field['maxLength']} characters"
    return kind + _describe_default(field)


def _describe_default(field: Schema) -> str:
    return f"; default `{field['default']}`" if "default" in field else ""
