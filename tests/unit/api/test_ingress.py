"""Messages for invalid rules of spec.networkPolicy: one message, with a path that exists. A key
without a value is rejected, because the rule would select more than its author intends.
"""

import pytest
from dijob.api.problems import SpecError
from samples.builders import Body, job

RULE = "spec.networkPolicy.ingress[0]"
ANY: Body = {"podSelector": {}}
NO_VALUE = "has no value: set one, or remove the key"
BAD_PORT = "it must be a number from 1 to 65535, or the name of a port (at most 15 characters)"


def said_of(rule: Body) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as refused:
        job(networkPolicy={"ingress": [rule]})
    return [(problem.field, problem.message) for problem in refused.value.problems]


@pytest.mark.parametrize(
    ("rule", "field", "words"),
    [
        pytest.param(
            {"from": [{"namespaceSelector": {"matchLabel": {"a": "b"}}}]},
            f"{RULE}.from[0].namespaceSelector.matchLabel",
            "did you mean matchLabels?",
            id="a misspelled key",
        ),
        pytest.param(
            {"from": [{"podSelecter": {}}, {"podSelector": {}}]},
            f"{RULE}.from[0].podSelecter",
            "did you mean podSelector?",
            id="one of two peers",
        ),
        pytest.param(
            {"from": [{"podSelector": {"matchLabels": {"a": None}}}]},
            f"{RULE}.from[0].podSelector.matchLabels.a",
            "should be a valid string",
            id="a label without a value",
        ),
        pytest.param({"from": []}, f"{RULE}.from", "at least 1 item", id="no peer at all"),
        *(
            pytest.param(
                {"from": [ANY], "ports": [{"port": port}]},
                f"{RULE}.ports[0].port",
                BAD_PORT,
                id=f"port {port!r}",
            )
            for port in (0, 65536, True, "", "a-name-of-16-cha", 1.5, [80])
        ),
    ],
)
def test_an_invalid_rule_has_one_problem_with_an_existing_path(
    rule: Body, field: str, words: str
) -> None:
    ((place, message),) = said_of(rule)
    assert place == field
    assert words in message


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        pytest.param(
            {"from": [{"namespaceSelector": {"matchLabels": None}}]},
            f"{RULE}.from[0].namespaceSelector.matchLabels",
            id="labels: every namespace",
        ),
        pytest.param(
            {"from": [{"podSelector": {"matchExpressions": None}}]},
            f"{RULE}.from[0].podSelector.matchExpressions",
            id="expressions: every pod",
        ),
        pytest.param(
            {"from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}, "podSelector": None}]},
            f"{RULE}.from[0].podSelector",
            id="pods: all of these namespaces",
        ),
        pytest.param(
            {"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": None}}]},
            f"{RULE}.from[0].ipBlock.except",
            id="exceptions: none",
        ),
        pytest.param(
            {"from": [ANY], "ports": [{"port": None}]}, f"{RULE}.ports[0].port", id="a port: all"
        ),
        pytest.param({"from": [ANY], "ports": None}, f"{RULE}.ports", id="ports: all"),
        pytest.param({"from": None}, f"{RULE}.from", id="peers: everybody"),
    ],
)
def test_a_key_without_a_value_is_rejected(rule: Body, field: str) -> None:
    """The apiserver treats a null as absent, so the rule would select more than its author
    intends."""
    assert said_of(rule) == [(field, NO_VALUE)]


@pytest.mark.parametrize("port", [1, 65535, "metrics", "a-name-of-15-ch"])
def test_a_port_is_a_number_or_a_name(port: int | str) -> None:
    made = job(networkPolicy={"ingress": [{"from": [ANY], "ports": [{"port": port}]}]})
    assert made.spec.network_policy
    assert made.spec.network_policy.ingress[0].ports[0].port == port
