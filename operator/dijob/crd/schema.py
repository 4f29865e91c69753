"""Converts pydantic's JSON schema into a structural schema of Kubernetes.

A structural schema has no `$ref`, no `title` and no null branch. This module also adds what the
model lacks: the fields of a pod's spec that CEL rules read, and parts of the object that may have
any content.
"""

from typing import Any, Final

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from dijob.api.spec import Spec
from dijob.api.traits import Fixed, Immutable, traits_by_field

Schema = dict[str, Any]

_NAME: Final = "The job's name. Its pods are named NAME-RANK, and its Service is named NAME."
_IMMUTABLE: Final = "Can be changed only while the job is suspended."
_FIXED: Final = "Can never be changed."
_KEPT: Final = (
    *("type", "enum", "required", "minimum", "maximum", "minLength", "maxLength"),
    *("minItems", "maxItems", "maxProperties"),
)
# Not nullable: the scale subresource reads this field, and fails if it is null.
_SCALED: Final = "replicas"
_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}
# The observedGeneration of a job that the operator has not seen yet.
UNSEEN: Final = -1
# This limit is higher than that of the rule (template_checks.LONGEST_STRING). So the apiserver
# shows the rule's message rather than the schema's, which does not say what to do.
_LONG: Final = 2**20
# Bounds for lists in a template. limits.VALUES limits the object anyway. For tasks the bound is
# smaller, because the apiserver estimates the cost of a rule over all tasks and rejects a CRD above
# its budget.
_WORDS: Final = 8192
_VARIABLES: Final = 4096
_VARIABLES_OF_TASKS: Final = 1500


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of the object that a model describes, without its rules."""
    raw = model.model_json_schema(by_alias=True)
    root = _clean_node(raw, raw.get("$defs", {}))
    # The apiserver validates metadata itself. The name is declared so that rules can read it.
    root["properties"]["metadata"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": _NAME}},
    }
    root["properties"] = {**_TYPE_META, **root["properties"]}
    root["required"] = ["spec"]
    for path in ("spec.template", "spec.tasks[].template"):
        template = schema_at(root, path)["properties"]
        variables = _VARIABLES_OF_TASKS if "tasks" in path else _VARIABLES
        template["spec"] = {**_pod_spec(variables), "description": template["spec"]["description"]}
        for ignored in ("ownerReferences", "managedFields"):
            one = {"type": "object", "description": "Ignored.", **_OPEN}
            template["metadata"]["properties"][ignored]["items"] = one
        template["containers"] |= {
            "maxItems": 64,
            "items": {"type": "object", "description": "Rejected.", **_OPEN},
        }
    _let_null_pass(schema_at(root, "spec"))
    volume = {"type": "object", "description": "A volume, as in a pod's spec.", **_OPEN}
    schema_at(root, "spec.volumes")["items"] = volume
    # Unknown keys are kept, so that the operator sees a misspelled key and rejects it. If the
    # apiserver pruned it, the remaining rule or selector could allow all peers.
    rule = {"type": "object", "description": "A rule, as in a NetworkPolicy.", **_OPEN}
    schema_at(root, "spec.networkPolicy.ingress")["items"] = rule
    for name, trait in traits_by_field(Spec, Immutable).items():
        if not trait.in_part:
            schema_at(root, f"spec.{to_camel(name)}")["description"] += f" {_IMMUTABLE}"
    for name in traits_by_field(Spec, Fixed):
        schema_at(root, f"spec.{to_camel(name)}")["description"] += f" {_FIXED}"
    # A program may post any object.
    schema_at(root, "status.profilings[].data").update(_OPEN)
    schema_at(root, "status")["default"] = {"observedGeneration": UNSEEN}
    conditions, restarts_seen = (
        schema_at(root, "status.conditions"),
        schema_at(root, "status.restartsSeen"),
    )
    conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    restarts_seen |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["rank"]}
    return root


def _let_null_pass(node: Schema) -> None:
    """Allow null for optional fields, for string values in maps and for string items in lists.

    When the apiserver decodes an object, it drops nulls that the schema does not allow. In a
    server-side apply, which Flux and Helm use, the apiserver does not drop these nulls. A field
    with a default gets its default in place of null. An `enum` cannot contain null, so a rule lists
    the allowed values instead (rules.py).
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


def schema_at(schema: Schema, path: str) -> Schema:
    """Return the schema at a dotted path. `[]` stands for an array's items, "" for the root."""
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


def _clean_node(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return a node and everything below it in structural form."""
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    if "anyOf" in node:
        branch = next(one for one in node["anyOf"] if one.get("type") != "null")
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _clean_node({**branch, **rest}, definitions)
    clean: Schema = {key: node[key] for key in _KEPT if key in node}
    if "description" in node:
        clean["description"] = " ".join(node["description"].split())
    if "defaulted" in node:
        clean["default"] = node["default"]
    if "properties" in node:
        below = node["properties"].items()
        clean["properties"] = {key: _clean_node(value, definitions) for key, value in below}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict) and node[key]:
            clean[key] = _clean_node(node[key], definitions)
    return clean


def _pod_spec(variables: int) -> Schema:
    """Return the schema of a pod's spec. It declares only a few fields.

    Among them are the fields that the CEL rules read. The apiserver validates the other fields when
    the pods are created. The spec is nullable and not required. So an empty `spec:` with
    `containers:` next to it gets only the message of the rule about misplaced containers.
    """
    return {
        "type": "object",
        "nullable": True,
        **_OPEN,
        "properties": {
            "containers": _containers_schema(
                "At least one container. The main container is the one named di-container, else the"
                " first.",
                variables,
            ),
            "initContainers": _containers_schema(
                "Init containers. They run before the operator's gate.", variables
            ),
            "restartPolicy": _text_schema(32, "OnFailure (the default) or Never."),
            "hostNetwork": {
                "type": "boolean",
                "description": "Use the node's network. If true, two ranks never share a node.",
            },
            "hostname": _text_schema(253, "Set by the operator."),
            "subdomain": _text_schema(253, "Set by the operator."),
        },
    }


def _containers_schema(description: str, variables: int) -> Schema:
    return {
        "type": "array",
        "maxItems": 32,
        "items": {
            "type": "object",
            "description": "A container, with any field that Kubernetes defines.",
            **_OPEN,
            "required": ["name"],
            "properties": {
                "name": _text_schema(63, "The container's name."),
                "image": _text_schema(4096, "The container's image."),
                "command": _words_schema(
                    "The program. In the main container, the launcher runs it (see spec.launcher)."
                ),
                "args": _words_schema("Arguments of the command."),
                "env": _env_schema(variables),
            },
        },
        "description": description,
    }


def _env_schema(most: int) -> Schema:
    return {
        "type": "array",
        "description": "Environment variables. Those that describe the rank and its peers are"
        f" rejected. To set more than {most} variables, use envFrom with a ConfigMap.",
        "maxItems": most,
        "items": {
            "type": "object",
            "description": "One variable.",
            **_OPEN,
            "required": ["name"],
            "properties": {
                "name": _text_schema(256, "The variable's name."),
                "value": _text_schema(
                    _LONG,
                    "The variable's value. Name and value together may have at most 131,070"
                    " characters.",
                ),
            },
        },
    }


def _words_schema(description: str) -> Schema:
    items = _text_schema(_LONG, "One argument: at most 131,071 characters.")
    return {"type": "array", "maxItems": _WORDS, "items": items, "description": description}


def _text_schema(most: int, description: str) -> Schema:
    return {"type": "string", "maxLength": most, "description": description}
