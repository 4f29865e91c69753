"""Changes that make an object hard to process: depth, width, scripts, unusual pods, labels and
annotations.
"""

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from manifests import GROUP

from faults.hostile.structural import ANYTHING, CHARACTERS, WORDS
from faults.lab.kube import Json

# Slightly below the depth limit of the 1.34 apiserver.
DEPTH = 900

NUMBERS = st.sampled_from(
    ["0", "1", "2", "3", "-1", "01", "x", "777", "99999", "999999999999999", "9" * 40]
)


def nested(depth: int) -> Json:
    made: Json = {"a": 1}
    for _ in range(depth):
        made = {"a": made}
    return made


CONTAINER = (
    "name",
    "image",
    "command",
    "args",
    "env",
    "envFrom",
    "ports",
    "resources",
    "volumeMounts",
    "lifecycle",
)
POD = (
    *(
        "nodeName",
        "schedulerName",
        "serviceAccountName",
        "restartPolicy",
        "terminationGracePeriodSeconds",
        "volumes",
    ),
    *(
        "initContainers",
        "containers",
        "securityContext",
        "overhead",
        "hostNetwork",
        "hostAliases",
        "dnsPolicy",
    ),
    *("affinity", "tolerations", "nodeSelector", "priorityClassName", "subdomain", "hostname", "x"),
)
# Text that is hard for a shell parser.
BITS = st.sampled_from(
    [
        "$(",
        "`",
        "'",
        '"',
        "\\\n",
        "env ",
        "${",
        "<<E\n",
        "a;",
        "²",
        "\u202e",
        "exec ",
        "sh -c '",
        "&&",
        "|",
    ]
)
KNOWN = {
    "nodeName": st.just("nowhere"),
    "schedulerName": st.just("nobody"),
    "serviceAccountName": st.sampled_from([None, "nobody"]),
    "restartPolicy": st.sampled_from(["Never", "Always", "OnFailure", "Sometimes"]),
    "resources": st.sampled_from(
        [{"limits": {"nvidia.com/gpu": text}} for text in ("²", "1", "9", "-1", "1e3", "")]
    ),
}


def _deep(draw: DrawFn, body: Json) -> None:
    body["spec"]["template"]["spec"]["x"] = nested(draw(st.integers(20, DEPTH)))


def _wide(draw: DrawFn, body: Json) -> None:
    body["spec"]["template"]["spec"]["x"] = [draw(st.sampled_from([[], {}, 1, ""]))] * draw(
        st.integers(1_000, 60_000) | st.just(440_000)
    )


def _script(draw: DrawFn, body: Json) -> None:
    text = "".join(draw(st.lists(BITS, min_size=1, max_size=4))) * draw(st.integers(1, 8_000))
    body["spec"]["template"]["spec"]["containers"][0] |= {"command": ["bash", "-c"], "args": [text]}


def _container(draw: DrawFn, body: Json) -> None:
    field = draw(st.sampled_from(CONTAINER))
    body["spec"]["template"]["spec"]["containers"][0][field] = draw(
        KNOWN.get(field, ANYTHING) | ANYTHING
    )


def _pod(draw: DrawFn, body: Json) -> None:
    field = draw(st.sampled_from(POD))
    body["spec"]["template"]["spec"][field] = draw(KNOWN.get(field, ANYTHING) | ANYTHING)


def _large(draw: DrawFn, body: Json) -> None:
    body["metadata"]["annotations"] = {"example.org/large": draw(CHARACTERS) * 60_000}


def _template(draw: DrawFn, body: Json) -> None:
    body["spec"]["template"]["metadata"] = {
        "labels": draw(labels()),
        "annotations": draw(annotations()),
        "name": "other",
    }


def _named(draw: DrawFn, body: Json) -> None:
    body["metadata"] |= {"labels": draw(labels()), "annotations": draw(annotations())}


def _finalizer(draw: DrawFn, body: Json) -> None:
    body["metadata"]["finalizers"] = ["example.org/stays"]


# The order matters: changes to one container come before those that replace all containers.
TWISTS: tuple[Callable[[DrawFn, Json], None], ...]
TWISTS = (_deep, _wide, _script, _container, _pod, _large, _template, _named, _finalizer)


def labels() -> SearchStrategy[Json]:
    """Return a strategy for the operator's labels, with values that a tenant chose."""
    return st.fixed_dictionaries(
        {},
        optional={
            "app.kubernetes.io/managed-by": st.sampled_from(["dijob-operator", "me"]),
            f"{GROUP}/job": st.sampled_from(["a", "h0", "h1", "h2"]),
            f"{GROUP}/rank": NUMBERS.filter(lambda text: not text.startswith("-")),
            f"{GROUP}/task": st.just("learner"),
        },
    )


def annotations() -> SearchStrategy[Json]:
    """Return a strategy for the operator's annotations, with values that a tenant chose."""
    keys = (
        "node-ips",
        "listNumber",
        "renew-from",
        "topology",
        "template-hash",
        "reminded",
        "pod-ip",
        "num-nodes",
        "broker",
    )
    lists = st.sampled_from(
        ["10.6.6.6,10.6.6.6,10.6.6.6,10.6.6.6", ",,,", "{}", "[" * 50_000, '{"nodeIps":1}']
    )
    return st.fixed_dictionaries(
        {}, optional={f"{GROUP}/{key}": NUMBERS | lists | WORDS for key in keys}
    )
