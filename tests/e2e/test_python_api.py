"""The Python API against a real platform; the examples of its documentation are what is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.platform import ROOT
from lab.workspace import Workspace
from osmosis import Client
from osmosis.client.client import DownloadIncomplete
from osmosis.client.runs import Run
from osmosis.wire.errors import Conflict, NotFound, OsmosisError, ValidationFailed

CONFIG = "configs/eval/multiply-scripted.toml"
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python-api.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def place(workspace: Workspace) -> Iterator[Path]:
    """The workspace of the lab, as a program on the same machine finds it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("OSMOSIS_")]:
            patch.delenv(name)
        for name in ("OSMOSIS_DATA_DIR", "HOME", "XDG_CONFIG_HOME"):
            patch.setenv(name, workspace.lab.env[name])
        patch.chdir(workspace.directory)
        yield workspace.directory


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[Client]:
    with Client() as made:
        yield made


@pytest.fixture(scope="module")
def run(client: Client) -> Run:
    overrides = {"evaluation.limit": 30, "evaluation.n": 2, "evaluation.batch_size": 16}
    return client.submit(CONFIG, overrides=overrides, wait=True, timeout_s=100)


@pytest.mark.usefixtures("place")
def test_the_examples_of_the_documentation_run_as_they_stand(
    capsys: pytest.CaptureFixture[str],
):
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        exec(compile(example, "docs/python-api.md", "exec"), names)
    names["client"].delete_dataset("multiply-copy")
    assert "finished" in capsys.readouterr().out
    assert names["run"].graded == 5
    assert names["quick"].graded == 4
    assert len(names["frame"]) == names["table"].num_rows == 4
    assert names["report"].complete


def test_a_run_has_its_numbers_as_attributes(run: Run):
    assert (run.status, run.ended, run.stage, run.error) == ("finished", True, None, None)
    assert (run.graded, run.failed, run.skipped) == (60, 0, 0)
    assert run.pass_rate == pytest.approx(run.results["pass_rate"])
    assert run.created_at <= run.started_at <= run.completed_at  # pyright: ignore[reportOptionalOperand]
    assert (run.model, run.dataset) == ("scripted/models/multiply.toml", "multiply")


def test_results_come_page_by_page_in_order(client: Client, run: Run):
    samples = list(client.results(run))
    keys = [(sample.row_index, sample.run_index) for sample in samples]
    assert keys == [(row, index) for row in range(30) for index in range(2)]
    table = client.results(run.name).to_arrow()
    assert table.num_rows == 60
    assert table.column("reward").to_pylist() == [sample.reward for sample in samples]
    assert str(table.schema.field("tokens").type) == "int64"
    assert list(client.results(run, status="failed")) == []


def test_an_empty_result_is_a_table_with_its_columns(client: Client, run: Run):
    table = client.results(run, status="failed").to_arrow()
    assert (table.num_rows, table.num_columns) == (0, 12)


def test_waiting_has_an_end(client: Client):
    started = client.submit(CONFIG, overrides={"evaluation.limit": 200})
    with pytest.raises(TimeoutError, match=started.name):
        client.wait(started, timeout_s=0.0)
    client.stop(started)
    ended = client.wait(started, timeout_s=60)
    assert ended.ended
    assert next(client.runs()).created_at >= started.created_at  # pyright: ignore[reportOptionalOperand]
    client.delete(ended)
    with pytest.raises(NotFound):
        client.run(ended)


def test_every_mistake_of_a_config_is_told_at_once(client: Client):
    with pytest.raises(ValidationFailed) as caught:
        client.submit({"experiment": {"rollout": "multiply"}, "evaluation": {"limit": 0}})
    keys = {issue.key for issue in caught.value.issues}
    assert {"experiment.dataset", "evaluation.limit"} <= keys
    with pytest.raises(ValidationFailed, match="configs/eval"):
        client.submit("data/multiply.jsonl")


def test_a_download_that_is_incomplete_raises_and_says_what(
    client: Client, run: Run, tmp_path: Path
):
    (tmp_path / "metrics.json").mkdir()
    with pytest.raises(DownloadIncomplete, match=r"metrics\.json") as caught:
        client.download(run, tmp_path, rows="0")
    report = caught.value.report
    assert [problem.path for problem in report.problems] == ["metrics.json"]
    assert report.downloaded == 3


def test_a_workspace_is_named_from_anywhere(
    place: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with Client(workspace="alpha") as client:
        assert client.run(run.name).id == run.id
    with Client(directory=place) as client:
        assert client.run(run.name).id == run.id
    with Client(workspace="nope") as client, pytest.raises(OsmosisError, match="nope"):
        next(client.runs())
    with pytest.raises(OsmosisError, match="workspace"):
        Client()


def test_a_dataset_that_is_there_is_replaced_only_when_asked(client: Client, place: Path):
    with pytest.raises(Conflict):
        client.upload_dataset(place / "data/multiply.jsonl")
    assert client.upload_dataset("data/multiply.jsonl", overwrite=True)["status"] == "uploaded"


def test_importing_the_package_loads_nothing_of_the_client():
    code = "import osmosis, sys; print('httpx' in sys.modules, 'osmosis.client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_the_sdk_of_a_rollout_says_that_it_has_no_client(tmp_path: Path):
    from osmosis.evaluation.sdk_wheel import sdk_wheel

    with zipfile.ZipFile(sdk_wheel(tmp_path / "wheel").path) as wheel:
        wheel.extractall(tmp_path / "sdk")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'sdk')!r}); from osmosis import Client"
    words = [sys.executable, "-S", "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "it has no Client" in done.stderr.splitlines()[-1]
