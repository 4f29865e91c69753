"""Documents that are too deep or too large neither break a parser nor hide other objects."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import kopf
import pytest
from aiohttp import web
from dijob import names
from dijob.api import limits
from dijob.api.parse import parse_job
from dijob.api.problems import SpecError
from dijob.controller.cache.children import Children
from dijob.controller.queue.workqueue import WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch import job_watch
from dijob.controller.watch.arrivals import Arrivals
from dijob.controller.watch.kopf_session import Session, login
from dijob.kube.api import Api, Stream
from dijob.kube.connection import OperatorConnection
from dijob.kube.documents import limit_document, parse_document
from fakes.poisoned import DEEPEST, answer, listed, nested
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.aio.client.configuration import Configuration
from samples.builders import UID, Body, job_body
from unit.controller.test_event_loop import is_short

LEVELS = pytest.mark.parametrize("levels", [101, 199, 201, 900, 1_100, DEEPEST])

KINDS = pytest.mark.parametrize(
    "brackets", [('{"a":', "}"), ("[", "]"), ('[{"]}":', "}]")], ids=["{", "[", "[{"]
)


@LEVELS
@KINDS
async def test_one_document_that_is_too_deep_does_not_hide_other_documents(
    levels: int, brackets: tuple[str, str]
) -> None:
    poisoned, healthy = (await parse_document(listed(levels, *brackets)))["items"]
    assert healthy == job_body()
    with pytest.raises(SpecError) as refused:
        parse_job(poisoned)
    assert str(refused.value).startswith("spec.template.spec.x")
    assert limits.DEEP_MESSAGE in str(refused.value)
    assert len(str(refused.value)) < 300


@LEVELS
@KINDS
async def test_kopf_can_parse_every_document_that_it_gets(
    levels: int, brackets: tuple[str, str]
) -> None:
    found = json.loads(await limit_document(listed(levels, *brackets)))
    assert found["items"][1] == job_body()


async def test_a_document_that_is_not_too_deep_is_unchanged() -> None:
    text = listed(limits.LEVELS - 10)
    assert await limit_document(text) is text
    assert await parse_document(text) == json.loads(text)
    parse_job((await parse_document(text))["items"][0])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(st.sampled_from('[]{}"\\,:éa')),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.sampled_from('[]{}"\\a')), inner),
)


@given(value=JSON, ascii=st.booleans())
@settings(max_examples=50, deadline=None)
def test_a_shallow_document_is_kept_completely(value: object, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode()
    assert limits.cut_depth(text) == text


@given(value=JSON)
@settings(max_examples=50, deadline=None)
def test_only_the_deep_part_of_a_document_is_removed(value: object) -> None:
    text = f"[{nested(300)},{json.dumps(value)}]".encode()
    assert json.loads(limits.cut_depth(text))[1] == value


@pytest.mark.parametrize("data", [b"", b"{", b"<html>", b'{"a": tru}', b"[" * 300 + b"x"])
async def test_invalid_json_raises_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="at line 1 column"):
        await parse_document(data)


def test_a_job_with_too_many_values_is_rejected() -> None:
    with pytest.raises(SpecError, match="spec: has more than 10,000 values"):
        parse_job(job_body(pod={"x": [[] for _ in range(limits.VALUES)]}))


# A third of what an apiserver stores.
WIDE: dict[str, str] = {
    "lists": f"[{','.join(['[]'] * 150_000)}]",
    "numbers": f"[{','.join(['1'] * 250_000)}]",
    "fields": "{" + ",".join(f'"{number}":1' for number in range(50_000)) + "}",
    "lists of lists": f"[{','.join(['[[[[[[[[[]]]]]]]]]'] * 25_000)}]",
    "many values in each of 40 levels": '[1,{"a":' * 20 + f"[{'1,' * 200_000}1]" + "}]" * 20,
}
LARGE = pytest.mark.parametrize("text", WIDE.values(), ids=WIDE)


def large(text: str) -> bytes:
    """Return a job with a value in a field of any type, and in managedFields."""
    body = job_body(pod={"x": 0})
    body["metadata"] = {"managedFields": [{"fieldsV1": 0}], **body["metadata"]}
    return (
        json.dumps(body, separators=(",", ":"))
        .replace('"x":0', f'"x":{text}')
        .replace(":0}]", f":{text}}}]")
        .encode()
    )


@LARGE
async def test_a_huge_job_is_cut_before_parsing_and_still_rejected(
    text: str,
) -> None:
    read, event = list[Any](), b'{"type":"ADDED","object":%s}' % large(text)

    async def as_ours() -> None:
        read.append(await parse_document(large(text)))

    async def as_kopf_does() -> None:
        read.append(json.loads(await limit_document(event))["object"])

    assert await is_short(as_ours)
    assert await is_short(as_kopf_does)
    for body in read:
        assert body["metadata"]["uid"] == UID
        with pytest.raises(SpecError, match="spec: has more than 10,000 values"):
            parse_job(body)


@given(value=JSON, levels=st.integers(0, 4))
@settings(max_examples=50, deadline=None)
def test_a_document_with_few_values_is_kept_completely(value: object, levels: int) -> None:
    text = json.dumps(value).encode()
    assert limits.cut_size(text, levels) == text


@given(value=JSON, levels=st.integers(0, 3), most=st.integers(0, 6))
@settings(max_examples=50, deadline=None)
def test_a_cut_leaves_a_marker_and_keeps_the_rest(value: object, levels: int, most: int) -> None:
    text = json.dumps(value)
    assert json.loads(limits.cut_size(text.encode(), levels, most)) == marked(
        json.loads(text), levels, most
    )


def marked(value: object, levels: int, most: int) -> object:
    """Return the value with CUT in place of parts below `levels` levels that have more than `most`
    commas and brackets.
    """
    if not isinstance(value, dict | list):
        return value
    if not levels and tokens(value) - 1 > most:
        return [limits.CUT] if isinstance(value, list) else {limits.CUT: limits.CUT}
    if not levels:
        return value
    if isinstance(value, list):
        return [marked(below, levels - 1, most) for below in value]
    return {name: marked(below, levels - 1, most) for name, below in value.items()}


def tokens(value: object) -> int:
    """Count the commas and opening brackets in the JSON of a value, outside strings."""
    if not isinstance(value, dict | list):
        return 0
    below = value.values() if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(map(tokens, below))


@pytest.fixture
async def apiserver() -> AsyncIterator[str]:
    """Yield the URL of an apiserver."""
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_our_connection_survives_a_poisoned_list_and_watch(apiserver: str) -> None:
    connection = OperatorConnection(Configuration(host=apiserver))
    try:
        api = Api(connection)
        assert (await api.get(f"/{names.PLURAL}"))["items"][1] == job_body()
        events = [event async for event in api.watch(Stream(f"/{names.PLURAL}", ""))]
        assert events[1]["object"]["status"] == {"phase": "Running"}
    finally:
        await connection.close()


async def test_kopf_survives_a_poisoned_list_and_watch(
    apiserver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = kopf.ConnectionInfo(server=apiserver)
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: info)
    watched, stop = list[Any](), asyncio.Event()

    class Jobs(Reconciler):
        def __init__(self) -> None:
            self.jobs = cast(Any, self)  # only `put` is called

        def put(self, body: Body, *, shown: bool) -> None:
            watched.append((body["metadata"]["uid"], (body.get("status") or {}).get("phase")))
            if watched[-1] == (UID, "Running"):
                stop.set()

    registry = job_watch.make_registry(Arrivals(Jobs(), cast(WorkQueue, None), Children.of(())))
    how: Body = {"clusterwide": True, "standalone": True, "stop_flag": stop, "identity": "x"}
    operator = kopf.operator(registry=registry, settings=job_watch.kopf_settings(), **how)
    async with asyncio.timeout(20):
        await operator
    assert (UID, None) in watched
    assert ("poison", None) in watched


def test_a_session_is_equal_to_one_with_the_same_credentials() -> None:
    """Otherwise kopf would retry rejected credentials without a pause."""

    async def made(token: str) -> Session:
        info = kopf.ConnectionInfo(server="https://x", token=token)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kopf, "login_with_service_account", lambda **_: info)
            found = await login()
        assert isinstance(found, Session)
        await found.aiohttp_session.close()
        return found

    async def all_three() -> tuple[Session, Session, Session]:
        return await made("a"), await made("a"), await made("b")

    first, same, other = asyncio.run(all_three())
    assert first == same
    assert first != other
