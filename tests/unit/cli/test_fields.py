"""`explain` suggests the correct name for an unknown field of a pod."""

import pytest
from dijob.cli.explain.fields import nearest_field, with_names


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("spec.containers[0].comand", "command"),
        ("spec.containers[12].workingdir", "workingDir"),
        ("spec.initContainers[0].resources.limit", "limits"),
        ("spec.tolerations[0].operater", "operator"),
        ("spec.nodeSelecter", "nodeSelector"),
        ("metadata.label", "labels"),
        ("spec.containers[0].xyzzy", ""),
        ("spec.containers[0].nosuch.name", ""),
        ("spec.nodeSelector.x", ""),
        ("", ""),
    ],
)
def test_the_nearest_field(path: str, near: str) -> None:
    assert nearest_field(path) == near


def test_each_unknown_field_gets_a_suggestion() -> None:
    said = 'strict decoding error: unknown field "spec.a", unknown field "spec.containers[0].arg".'
    assert with_names(said) == f"{said[:-1]}; spec.containers[0].arg: did you mean args?"
