"""Hypothesis strategies from a structural schema: values that an apiserver stores, and some that it
rejects.

hypothesis-jsonschema does this for JSON Schema; its last release (0.23.1) does not work with the
current Hypothesis.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Schema = dict[str, Any]

# Supported keywords, and keywords that do not restrict values. Others raise an error.
SILENT = {
    *("description", "default", "format", "type", "nullable", "uniqueItems"),
    *(
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
    ),
}
READ = {
    *(
        "enum",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "items",
        "minItems",
        "maxItems",
    ),
    *("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"),
}
# The default limits for the lengths of strings and lists.
TEXT, ITEMS = 30, 4
INT64 = 2**63

CHARACTERS = st.characters(exclude_categories=["Cs"])
WORDS = st.text(CHARACTERS, max_size=TEXT)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-INT64, INT64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
)
ANYTHING: SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=ITEMS) | st.dictionaries(WORDS, inner, max_size=ITEMS),
    max_leaves=12,
)


def values(schema: Schema) -> SearchStrategy[Any]:
    """Return a strategy for values that a schema admits. Raises ValueError for unknown keywords."""
    if strange := schema.keys() - SILENT - READ:
        raise ValueError(f"cannot make values for {', '.join(sorted(strange))}")
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.integers(0, 2**31) | WORDS
    match schema.get("type"):
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(schema.get("minimum", -INT64), schema.get("maximum", INT64 - 1))
        case "string":
            return _text(schema)
        case "array":
            least = schema.get("minItems", 0)
            most = max(least, min(ITEMS, schema.get("maxItems", ITEMS)))
            return st.lists(values(schema["items"]), min_size=least, max_size=most)
        case "object":
            return _object(schema)
    return ANYTHING


def _text(schema: Schema) -> SearchStrategy[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength", TEXT)
    if pattern := schema.get("pattern"):
        return st.from_regex(str(pattern), fullmatch=True).filter(
            lambda text: least <= len(text) <= most
        )
    short = st.text(CHARACTERS, min_size=least, max_size=max(least, min(TEXT, most)))
    return short | CHARACTERS.map(lambda character: character * most)


def _object(schema: Schema) -> SearchStrategy[dict[str, Any]]:
    required = set(schema.get("required", ()))
    fields = {name: values(part) for name, part in schema.get("properties", {}).items()}
    known = st.fixed_dictionaries(
        {name: made for name, made in fields.items() if name in required},
        optional={name: made for name, made in fields.items() if name not in required},
    )
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        return st.dictionaries(
            WORDS, values(more), min_size=schema.get("minProperties", 0), max_size=ITEMS
        )
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        unknown = st.dictionaries(WORDS, ANYTHING, max_size=2)
        return st.tuples(unknown, known).map(lambda two: {**two[0], **two[1]})
    return known
