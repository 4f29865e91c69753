"""Which user a request to the page in the cluster has, and which requests are rejected."""

import pytest
from aiohttp.test_utils import make_mocked_request
from dijob_extras.ui.cluster import server
from dijob_extras.ui.cluster.users import (
    AccessDenied,
    Headers,
    PageUser,
    ProxyTrust,
    find_proxy_user,
    find_token_user,
)
from multidict import CIMultiDict, CIMultiDictProxy

SECRET = "the-secret-of-the-proxy"
TRUST = ProxyTrust(groups=frozenset({"rl", "oidc:rl"}))
PROXY = {"X-Dijob-Proxy-Secret": SECRET}
ALICE = {**PROXY, "X-Forwarded-User": "alice"}
Pairs = list[tuple[str, str]]


def headers(given: dict[str, str] | Pairs) -> Headers:
    return CIMultiDictProxy(CIMultiDict(given))


@pytest.mark.parametrize(
    ("given", "token"),
    [
        pytest.param({"Authorization": "Bearer a.b-c_d"}, "a.b-c_d", id="a token"),
        pytest.param({"Authorization": "Bearer a", "Impersonate-User": "root"}, "a",
                     id="an impersonation header has no effect"),
        pytest.param({"Authorization": "Bearer a", **ALICE}, "a",
                     id="headers of a proxy have no effect"),
        pytest.param({}, 401, id="no token"),
        pytest.param({"Authorization": "Bearer "}, 401, id="an empty token"),
        pytest.param({"Authorization": "Basic a"}, 401, id="another scheme"),
        pytest.param({"Authorization": "Bearer a b"}, 401, id="a space"),
        pytest.param({"Authorization": "Bearer a\r\nX: y"}, 401, id="a line break"),
        pytest.param({"Authorization": "Bearer ä"}, 401, id="not ASCII"),
        pytest.param({"Authorization": f"Bearer {'a' * 16385}"}, 401, id="too long"),
        pytest.param([("Authorization", "Bearer a"), ("Authorization", "Bearer b")], 401,
                     id="two tokens"),
        pytest.param(ALICE, 401, id="only the headers of a proxy"),
        pytest.param({"Cookie": "token=a"}, 401, id="a cookie"),
    ],
)  # fmt: skip
def test_the_user_of_a_token(given: dict[str, str] | Pairs, token: str | int) -> None:
    try:
        found: str | int = find_token_user(headers(given)).token
    except AccessDenied as denied:
        found = denied.status
    assert found == token


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(ALICE, PageUser(name="alice"), id="a user"),
        pytest.param({**ALICE, "X-Forwarded-Groups": "rl, others,"},
                     PageUser(name="alice", groups=("rl",)), id="only the allowed groups"),
        pytest.param({**ALICE, "Impersonate-User": "root", "Impersonate-Group": "system:masters"},
                     PageUser(name="alice"), id="impersonation headers have no effect"),
        pytest.param({**ALICE, "Authorization": "Bearer x"}, PageUser(name="alice"),
                     id="a token has no effect"),
        pytest.param({"X-Forwarded-User": "alice"}, 401, id="no secret"),
        pytest.param({**ALICE, "X-Dijob-Proxy-Secret": SECRET[:-1]}, 401, id="a short secret"),
        pytest.param({**ALICE, "X-Dijob-Proxy-Secret": "ü"}, 401, id="an odd secret"),
        pytest.param({"X-Dijob-Proxy-Secret": SECRET}, 401, id="no user"),
        pytest.param({**ALICE, "X-Forwarded-User": " "}, 401, id="an empty user"),
        pytest.param({**ALICE, "X-Forwarded-User": "system:admin"}, 403, id="a reserved user"),
        pytest.param({**ALICE, "X-Forwarded-User": "System:admin"}, 403, id="another case"),
        pytest.param({**ALICE, "X-Forwarded-User": "system:serviceaccount:a:b"}, 403,
                     id="a service account"),
        pytest.param({**ALICE, "X-Forwarded-Groups": "rl,system:masters"}, 403,
                     id="a reserved group"),
        pytest.param({**ALICE, "X-Forwarded-Groups": " SYSTEM:masters"}, 403,
                     id="a reserved group, another case"),
        pytest.param({**ALICE, "X-Forwarded-User": "a\nb"}, 403, id="a line break"),
        pytest.param({**ALICE, "X-Forwarded-User": "é"}, 403, id="not ASCII"),
        pytest.param({**ALICE, "X-Forwarded-User": "a" * 257}, 403, id="too long"),
        pytest.param([*ALICE.items(), ("x-forwarded-user", "bob")], 400, id="two users"),
        pytest.param([*ALICE.items(), ("X-Forwarded-Groups", "rl"), ("X-Forwarded-Groups", "rl")],
                     400, id="two lists of groups"),
        pytest.param([*ALICE.items(), ("X-Dijob-Proxy-Secret", SECRET)], 400, id="two secrets"),
    ],
)  # fmt: skip
def test_the_user_of_a_proxy(given: dict[str, str] | Pairs, wanted: PageUser | int) -> None:
    try:
        found: PageUser | int = find_proxy_user(headers(given), TRUST, SECRET)
    except AccessDenied as denied:
        found = denied.status
    assert found == wanted


def test_prefixes_and_a_list_of_users() -> None:
    trust = ProxyTrust(
        user_prefix="oidc:",
        group_prefix="oidc:",
        users=frozenset({"oidc:alice"}),
        groups=TRUST.groups,
    )
    given = {**ALICE, "X-Forwarded-Groups": "rl,system:masters"}
    # With a prefix, the group is not the reserved one.
    assert find_proxy_user(headers(given), trust, SECRET) == PageUser(
        name="oidc:alice", groups=("oidc:rl",)
    )
    with pytest.raises(AccessDenied, match="oidc:bob is not allowed") as denied:
        find_proxy_user(headers({**PROXY, "X-Forwarded-User": "bob"}), trust, SECRET)
    assert denied.value.status == 403


def test_an_empty_secret_admits_nothing() -> None:
    with pytest.raises(AccessDenied):
        find_proxy_user(headers({**ALICE, "X-Dijob-Proxy-Secret": ""}), TRUST, "")


def test_a_user_is_impersonated_with_all_groups_and_a_token_is_never_printed() -> None:
    assert PageUser(name="alice", groups=("a", "b")).impersonation == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    )
    assert PageUser(token="x").impersonation == ()
    assert "top-secret" not in repr(PageUser(token="top-secret"))


@pytest.mark.parametrize(
    ("method", "path", "given", "status"),
    [
        pytest.param("GET", "/", {"Host": "page.example"}, None, id="an allowed host"),
        pytest.param("GET", "/", {"Host": "page.example:8443"}, None, id="with a port"),
        pytest.param("GET", "/", {"Host": "localhost:1"}, None, id="a forwarded port"),
        pytest.param("GET", "/", {"Host": "[::1]:1"}, None, id="IPv6"),
        pytest.param("GET", "/", {"Host": "evil.test"}, 403, id="another host"),
        pytest.param("GET", "/", {"Host": "page.example.evil.test"}, 403, id="a prefix"),
        pytest.param("GET", "/", {"Host": "[evil"}, 403, id="not a host"),
        pytest.param("GET", "/", {}, 403, id="no host"),
        pytest.param("GET", "/", [("Host", "page.example"), ("Host", "evil.test")], 403,
                     id="two hosts"),
        pytest.param("POST", "/api/jobs", {"Host": "page.example"}, 405, id="not GET"),
        pytest.param("HEAD", "/", {"Host": "page.example"}, 405, id="head"),
        pytest.param("GET", "/api/jobs", {"Host": "page.example", "Sec-Fetch-Site": "cross-site"},
                     403, id="a request of another site"),
        pytest.param("GET", "/api/me", {"Host": "page.example", "Sec-Fetch-Site": "same-site"},
                     403, id="a request of a sibling domain"),
        pytest.param("GET", "/", {"Host": "page.example", "Sec-Fetch-Site": "cross-site"}, None,
                     id="a link on another site"),
        pytest.param("GET", "/api/jobs", {"Host": "page.example", "Sec-Fetch-Site": "same-origin"},
                     None, id="a request of the page"),
    ],
)  # fmt: skip
def test_requests_that_no_user_may_send(
    method: str, path: str, given: dict[str, str] | Pairs, status: int | None
) -> None:
    request = make_mocked_request(method, path, headers=CIMultiDict(given))
    refused = server.find_refusal(request, {"page.example", "localhost", "::1"})
    assert (refused and refused[0]) == status
