"""The calls of OneFlow, recorded by a test double. OneFlow itself cannot run here, because its
package on PyPI is a stub.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from dijob_runtime.oneflow import config_distributed


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    for name in ("NODES", "CTRL_PORT", "GPU_DEVICE_NUM"):
        monkeypatch.delenv(f"DI_ONEFLOW_{name}", raising=False)
    return []


def double(calls: list[tuple[str, Any]]) -> SimpleNamespace:
    """The module oneflow, as used in its documentation of 0.3."""
    return SimpleNamespace(
        config=SimpleNamespace(
            gpu_device_num=lambda count: calls.append(("gpu_device_num", count))
        ),
        env=SimpleNamespace(
            ctrl_port=lambda port: calls.append(("ctrl_port", port)),
            machine=lambda nodes: calls.append(("machine", nodes)),
        ),
    )


def test_the_calls_of_the_documentation(
    monkeypatch: pytest.MonkeyPatch, calls: list[tuple[str, Any]]
) -> None:
    nodes = [{"addr": "192.168.1.12"}, {"addr": "192.168.1.11"}]
    monkeypatch.setenv("DI_ONEFLOW_NODES", json.dumps(nodes))
    monkeypatch.setenv("DI_ONEFLOW_CTRL_PORT", "9988")
    monkeypatch.setenv("DI_ONEFLOW_GPU_DEVICE_NUM", "1")
    config_distributed(double(calls))
    assert calls == [("gpu_device_num", 1), ("ctrl_port", 9988), ("machine", nodes)]


def test_without_gpus_their_number_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
    calls: list[tuple[str, Any]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DI_ONEFLOW_GPU_DEVICE_NUM", "0")
    config_distributed(double(calls))
    assert [name for name, _ in calls] == ["ctrl_port", "machine"]
    assert "no GPU limit" in capsys.readouterr().err


def test_outside_a_dijob_it_is_one_machine(calls: list[tuple[str, Any]]) -> None:
    config_distributed(double(calls))
    assert calls == [("ctrl_port", 9988), ("machine", [{"addr": "127.0.0.1"}])]
