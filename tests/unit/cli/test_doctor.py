"""What `doctor` says of an environment in which something is missing or does not work."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from omnigraph.cli.doctor import run_doctor

Run: TypeAlias = Callable[..., tuple[int, dict[str, str], dict[str, str]]]


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `doctor --json` with variables of the environment: the exit code, and states and details of the checks."""

    def run(**environment: str) -> tuple[int, dict[str, str], dict[str, str]]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        code = run_doctor(spark=False, as_json=True)
        checks = json.loads(capsys.readouterr().out)["checks"]
        return code, {each["name"]: each["state"] for each in checks}, {each["name"]: each["detail"] for each in checks}

    return run


def test_spark_that_is_switched_off_is_a_warning(states: Run) -> None:
    code, found, details = states(OMNIGRAPH_SPARK="off")
    assert (code, found["spark"]) == (0, "warning")
    assert "OMNIGRAPH_SPARK" in details["spark"]


def test_a_java_that_does_not_run_fails(states: Run, tmp_path: Path) -> None:
    code, found, details = states(JAVA_HOME=str(tmp_path))
    assert (code, found["java"]) == (1, "failed")
    assert str(tmp_path) in details["java"]


def test_a_variable_of_no_setting_is_a_warning(states: Run) -> None:
    code, found, _ = states(OMNIGRAPH_DURABLITY="fast")
    assert (code, found["OMNIGRAPH_DURABLITY"]) == (0, "warning")


def test_a_folder_for_temporary_files_that_is_not_there_fails(
    states: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    code, found, _ = states()
    assert (code, found["temporary files"]) == (1, "failed")
