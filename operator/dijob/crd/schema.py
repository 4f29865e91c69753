"""Pydantic's JSON schema as a structural one of Kubernetes: no $ref, title, null branch or stray default."""

from typing import Any, Final

from pydantic import BaseModel

Schema = dict[str, Any]

_NAME: Final = "The job's name; its pods are named NAME-RANK, its Service NAME."
# Defaults that the apiserver writes into the object. Not topology: absent is not the same as mesh there (the
# command may say star). Not the three sizes: the operator writes the wish itself (see Spec.desired).
_DEFAULTED: Final = frozenset({"runtime", "addressing", "launcher", "cleanPodPolicy", "backoffLimit"})
_BOUNDS: Final = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "maxProperties")
_OPEN: Final = {"x-kubernetes-preserve-unknown-fields": True}
_ENV: Final[Schema] = {
    "type": "array",
    "description": "Environment variables. Those that describe the rank and its peers are refused.",
    "maxItems": 512,
    "items": {
        "type": "object",
        "description": "One variable.",
        **_OPEN,
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "The variable's name.", "maxLength": 256},
            "value": {"type": "string", "description": "Its value.", "maxLength": 131072},
        },
    },
}
_WORDS: Final[Schema] = {
    "type": "array",
    "maxItems": 256,
    "items": {"type": "string", "description": "One argument.", "maxLength": 131072},
}


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of the object that the model describes, without rules."""
    raw = model.model_json_schema(by_alias=True)
    root = _clean(raw, raw.get("$defs", {}), "")
    # The apiserver knows metadata itself; only its name may be spoken of here, and only so that a rule can.
    root["properties"]["metadata"] = {
        "type": "object",
        "properties": {"name": {"type": "string", "description": _NAME}},
    }
    root["properties"] = {**_TYPE_META, **root["properties"]}
    root["required"] = ["spec"]
    for path in ("spec.template", "spec.tasks[].template"):
        template = at(root, path)["properties"]
        template["spec"] = {**_pod_spec(), "description": template["spec"]["description"]}
        template["containers"] |= {
            "maxItems": 64,
            "items": {"type": "object", "description": "Refused.", **_OPEN},
        }
    at(root, "spec.volumes")["items"] = {"type": "object", "description": "A volume, as in a pod's spec.", **_OPEN}
    at(root, "spec.tasks[].replicas")["default"] = 1  # rules compare it
    for name in ("restarts", "readyReplicas"):
        at(root, f"status.{name}")["default"] = 0  # else the column of a job that has none is empty
    conditions, charged = at(root, "status.conditions"), at(root, "status.charged")
    conditions |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    charged |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["rank"]}
    return root


def at(schema: Schema, path: str) -> Schema:
    """The schema of the field at a dotted path; `[]` stands for an array's items, "" for the root."""
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


def _clean(node: Schema, definitions: dict[str, Schema], name: str) -> Schema:
    """One node and all below it; `name` is the field's own name."""
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    if "anyOf" in node:
        branch = next(one for one in node["anyOf"] if one.get("type") != "null")
        rest = {key: value for key, value in node.items() if key != "anyOf"}
        return _clean({**branch, **rest}, definitions, name)
    wanted = ("type", "enum", "required", *_BOUNDS)
    clean: Schema = {key: node[key] for key in wanted if key in node}
    if "description" in node:
        clean["description"] = " ".join(node["description"].split())
    if name in _DEFAULTED:
        clean["default"] = node["default"]
    if "properties" in node:
        clean["properties"] = {key: _clean(value, definitions, key) for key, value in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict) and node[key]:
            clean[key] = _clean(node[key], definitions, "")
    return clean


def _pod_spec() -> Schema:
    """The parts of a pod's spec that rules speak of; the rest is left to the strict creation of the pods.

    Nullable and not required, so that the seed's slip (`spec:` empty, `containers:` beside it) is answered by
    a sentence of ours alone.
    """
    return {
        "type": "object",
        "nullable": True,
        **_OPEN,
        "properties": {
            "containers": {
                **_containers(32),
                "description": "At least one. The one named di-container is main.",
            },
            "initContainers": {**_containers(32), "description": "They run before the operator's gate."},
            "restartPolicy": {
                "type": "string",
                "maxLength": 32,
                "description": "OnFailure (where absent) or Never.",
            },
            "hostNetwork": {
                "type": "boolean",
                "description": "The node's own network: two ranks never share a node then.",
            },
            "hostname": {"type": "string", "maxLength": 253, "description": "Set by the operator."},
            "subdomain": {"type": "string", "maxLength": 253, "description": "Set by the operator."},
        },
    }


def _containers(most: int) -> Schema:
    return {
        "type": "array",
        "maxItems": most,
        "items": {
            "type": "object",
            "description": "A container, with every field that Kubernetes knows.",
            **_OPEN,
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "maxLength": 63, "description": "The container's name."},
                "image": {"type": "string", "maxLength": 4096, "description": "Its image."},
                "command": {
                    **_WORDS,
                    "description": "The main one gets the launcher before it (see spec.launcher).",
                },
                "args": {**_WORDS, "description": "Arguments of the command."},
                "env": _ENV,
            },
        },
    }
