"""Pydantic's JSON schema as a structural one of Kubernetes: no $ref, title or null branch."""

from typing import Any, Final

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from dijob.api.spec import Spec
from dijob.api.traits import Immutable, traits

Schema = dict[str, Any]

_NAME: Final = "The job's name; its pods are named NAME-RANK, its Service NAME."
_IMMUTABLE: Final = "Can be changed only while suspended."
_KEPT: Final = (
    *("type", "enum", "required", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "maxProperties"),
)
# The scale subresource reads it, and fails with null.
_SCALED: Final = "replicas"
_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}
# Longer than a rule allows (template_checks.LONGEST_STRING), so that its message is shown.
_LONG: Final = 2**20
# An object of more values is refused (depth.VALUES). Tasks have room for less: the cost of a rule
# is estimated for all of them together.
_WORDS: Final = 8192
_VARIABLES: Final = 4096
_VARIABLES_OF_TASKS: Final = 1500


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of the object that the model describes, without rules."""
    raw = model.model_json_schema(by_alias=True)
    root = _clean(raw, raw.get("$defs", {}))
    # The apiserver knows metadata itself. Its name is here so that a rule can speak of it.
    root["properties"]["metadata"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": _NAME}},
    }
    root["properties"] = {**_TYPE_META, **root["properties"]}
    root["required"] = ["spec"]
    for path in ("spec.template", "spec.tasks[].template"):
        template = at(root, path)["properties"]
        variables = _VARIABLES_OF_TASKS if "tasks" in path else _VARIABLES
        template["spec"] = {**_pod_spec(variables), "description": template["spec"]["description"]}
        for ignored in ("ownerReferences", "managedFields"):
            one = {"type": "object", "description": "Ignored.", **_OPEN}
            template["metadata"]["properties"][ignored]["items"] = one
        template["containers"] |= {
            "maxItems": 64,
            "items": {"type": "object", "description": "Refused.", **_OPEN},
        }
    _let_null_pass(at(root, "spec"))
    volume = {"type": "object", "description": "A volume, as in a pod's spec.", **_OPEN}
    at(root, "spec.volumes")["items"] = volume
    # Open, so that the operator sees a misspelt key and refuses it: pruned, a rule or a selector
    # without it would let in everybody.
    rule = {"type": "object", "description": "A rule, as in a NetworkPolicy.", **_OPEN}
    at(root, "spec.networkPolicy.ingress")["items"] = rule
    for name, trait in traits(Spec, Immutable).items():
        if not trait.in_part:
            at(root, f"spec.{to_camel(name)}")["description"] += f" {_IMMUTABLE}"
    # What a program posts is an object of its own.
    at(root, "status.profilings[].data").update(_OPEN)
    conditions, restarts_seen = at(root, "status.conditions"), at(root, "status.restartsSeen")
    conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    restarts_seen |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["rank"]}
    return root


def _let_null_pass(node: Schema) -> None:
    """Let each field that can be absent, each entry of a map and each word of a list be null.

    The apiserver drops nulls that the schema does not allow when it decodes an object, but not in a
    server-side apply, which Flux and Helm use. What has a default gets it in place of null. No
    `enum` can have null in it, so a rule says the values instead (rules.py).
    """
    for name, field in node.get("properties", {}).items():
        if name not in (*node.get("required", ()), _SCALED) and "default" not in field:
            field["nullable"] = True
            if values := field.pop("enum", None):
                field["maxLength"] = max(map(len, values))
        _let_null_pass(field)
    for key in ("items", "additionalProperties"):
        if isinstance(below := node.get(key), dict):
            if below["type"] == "string":
                below["nullable"] = True
            _let_null_pass(below)


def at(schema: Schema, path: str) -> Schema:
    """The schema at a dotted path; `[]` stands for an array's items, "" for the root."""
    for part in path.split(".") if path else ():
        name = part.removesuffix("[]")
        schema = schema["properties"][name]
        if part.endswith("[]"):
            schema = schema["items"]
    return schema


_TYPE_META: Final = {
    "apiVersion": {"type": "string", "description": "diengine.opendilab.org/v2alpha1"},
    "kind": {"type": "string", "description": "DIJob"},
}


def _clean(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """One node and all below it."""
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    if "anyOf" in node:
        branch = next(one for one in node["anyOf"] if one.get("type") != "null")
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _clean({**branch, **rest}, definitions)
    clean: Schema = {key: node[key] for key in _KEPT if key in node}
    if "description" in node:
        clean["description"] = " ".join(node["description"].split())
    if "defaulted" in node:
        clean["default"] = node["default"]
    if "properties" in node:
        below = node["properties"].items()
        clean["properties"] = {key: _clean(value, definitions) for key, value in below}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict) and node[key]:
            clean[key] = _clean(node[key], definitions)
    return clean


def _pod_spec(variables: int) -> Schema:
    """The fields of a pod's spec that rules speak of; the apiserver checks the rest in the pods.

    Nullable and not required, so that an empty `spec:` with `containers:` beside it gets our
    sentence alone.
    """
    return {
        "type": "object",
        "nullable": True,
        **_OPEN,
        "properties": {
            "containers": _containers(
                "At least one. The one named di-container is main.", variables
            ),
            "initContainers": _containers("They run before the operator's gate.", variables),
            "restartPolicy": _text(32, "OnFailure (where absent) or Never."),
            "hostNetwork": {
                "type": "boolean",
                "description": "The node's own network: two ranks never share a node then.",
            },
            "hostname": _text(253, "Set by the operator."),
            "subdomain": _text(253, "Set by the operator."),
        },
    }


def _containers(description: str, variables: int) -> Schema:
    return {
        "type": "array",
        "maxItems": 32,
        "items": {
            "type": "object",
            "description": "A container, with every field that Kubernetes knows.",
            **_OPEN,
            "required": ["name"],
            "properties": {
                "name": _text(63, "The container's name."),
                "image": _text(4096, "Its image."),
                "command": _words("The main one gets the launcher before it (see spec.launcher)."),
                "args": _words("Arguments of the command."),
                "env": _env(variables),
            },
        },
        "description": description,
    }


def _env(most: int) -> Schema:
    return {
        "type": "array",
        "description": "Environment variables. Those that describe the rank and its peers are"
        " refused. For more, use envFrom with a ConfigMap.",
        "maxItems": most,
        "items": {
            "type": "object",
            "description": "One variable.",
            **_OPEN,
            "required": ["name"],
            "properties": {
                "name": _text(256, "The variable's name."),
                "value": _text(_LONG, "Its value: with the name, at most 131,070 characters."),
            },
        },
    }


def _words(description: str) -> Schema:
    items = _text(_LONG, "One argument: at most 131,071 characters.")
    return {"type": "array", "maxItems": _WORDS, "items": items, "description": description}


def _text(most: int, description: str) -> Schema:
    return {"type": "string", "maxLength": most, "description": description}
