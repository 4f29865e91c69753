"""A kubeconfig that impersonates a user acts only with the permissions of that user."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from dijob.client import AsyncClient
from unit.client.kubelets import Kubelets, kubelets

AS = {
    "as": "eve",
    "as-uid": "u",
    "as-groups": ["a", "b"],
    "as-user-extra": {"example.com/scopes": ["x"]},
}
HEADERS = [
    ("Impersonate-User", "eve"),
    ("Impersonate-Uid", "u"),
    ("Impersonate-Group", "a"),
    ("Impersonate-Group", "b"),
    ("Impersonate-Extra-example.com%2Fscopes", "x"),
]


@pytest.mark.parametrize(("user", "expected"), [({}, []), (AS, HEADERS)], ids=["no", "as"])
async def test_each_request_has_the_impersonation_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: dict[str, Any], expected: list[Any]
) -> None:
    seen = list[list[tuple[str, str]]]()

    def noted(original: Any) -> Any:
        async def answer(self: Kubelets, request: web.Request) -> web.StreamResponse:
            found = [pair for pair in request.headers.items() if pair[0].startswith("Imp")]
            seen.append(found)
            answered: web.StreamResponse = await original(self, request)
            return answered

        return answer

    for name in ("one", "objects", "execute"):
        monkeypatch.setattr(Kubelets, name, noted(getattr(Kubelets, name)))
    async with kubelets(tmp_path) as (made, kubeconfig):
        config = yaml.safe_load(Path(kubeconfig).read_text())  # noqa: ASYNC240
        config["users"][0]["user"] |= user
        (tmp_path / "as").write_text(yaml.safe_dump(config))
        await made.start(0)
        async with AsyncClient(str(tmp_path / "as")) as client:
            assert (await client.exec("test", 0, ["cat"], b"hello")).stdout == b"hello"
    assert len(seen) == 3
    assert all(found == expected for found in seen), seen
