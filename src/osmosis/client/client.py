"""``from osmosis import Client``: evaluation runs from a Python program or a notebook.

    client = Client()                      # the platform and the workspace of this directory
    run = client.submit("configs/eval/multiply.toml", wait=True)
    print(run.status, run.reward, run.pass_rate)
    frame = client.results(run).to_pandas()

What goes wrong raises an :class:`~osmosis.wire.errors.OsmosisError` with a sentence for people.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from osmosis.client.api import PAGE_LIMIT, Api
from osmosis.client.auth import Platform, find_platform, find_token
from osmosis.client.dataset_files import (
    create_dataset,
    download_dataset,
    send_dataset,
    wait_until_ready,
)
from osmosis.client.downloads import DownloadPlan, DownloadReport
from osmosis.client.exports import export_run
from osmosis.client.following import POLL_S, follow
from osmosis.client.results import Results
from osmosis.client.run_files import DEFAULT_KINDS, parse_kinds, parse_rows, read_manifest
from osmosis.client.runs import Run, run_of
from osmosis.client.scope import hosting_platform, repository_scope, workspace_scope
from osmosis.wire.errors import OsmosisError
from osmosis.wire.verdict import Verdict, verdict_of
from osmosis.workspace.config import (
    load_eval_config,
    override,
    parse_eval_config,
    submission_body,
)
from osmosis.workspace.layout import config_path, find_workspace, shown_path
from osmosis.workspace.repository import workspace_identity

STEPS_PER_CALL = 200


class DownloadIncomplete(OsmosisError):
    """Some files did not arrive. ``report`` says which, and what is there."""

    code = "PLATFORM_ERROR"

    def __init__(self, report: DownloadReport) -> None:
        first = report.problems[0]
        count = len(report.problems)
        super().__init__(
            f"{count} file{'s' if count != 1 else ''} did not arrive, the first {first.path}: "
            f"{first.error}.",
            hint="Download again: the files that are there stay.",
        )
        self.report = report


class Client:
    """A platform, seen from one workspace. Not for several threads at once.

    ``platform``: its address; else ``OSMOSIS_PLATFORM_URL``, else the platform that hosts the
    repository, else the server on this machine. ``token``: else ``OSMOSIS_TOKEN``, a saved
    ``osmosis auth login``, or the token of a server on this machine. ``workspace``: its name; else
    the repository of ``directory``, which is the current one unless given.
    """

    def __init__(
        self,
        platform: str | None = None,
        token: str | None = None,
        workspace: str | None = None,
        *,
        directory: str | Path | None = None,
    ) -> None:
        start = Path(directory or Path.cwd())
        self._root: Path | None = None
        if workspace:
            scope, origin = workspace_scope(workspace), None
        else:
            self._root = find_workspace(start)
            identity, origin = workspace_identity(self._root)
            scope = repository_scope(identity)
        hosted = hosting_platform(start, origin) if origin else None
        found: Platform = find_platform(platform, hosted)
        self.platform_url = found.url
        """The address of the platform."""
        self._api = Api(found.url, token or find_token(found).value, scope)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._api.close()

    # ------------------------------------------------------------------ runs

    def submit(
        self,
        config: str | Path | Mapping[str, Any],
        *,
        secrets: Mapping[str, str] | None = None,
        overrides: Mapping[str, Any] | None = None,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Run:
        """Start a run of the pushed code.

        ``config`` is a TOML file of the workspace, or the same as a mapping of sections.
        ``overrides`` puts values in place of its keys: ``{"evaluation.limit": 10}``. ``secrets``
        gives values for this run only; the other required ones come from the platform. With
        ``wait`` it returns when the run has ended, whatever its status.
        """
        body = submission_body(self._config(config, overrides or {}), secrets)
        started = self._api.submit_eval(body)
        if wait:
            return self.wait(str(started["id"]), timeout_s=timeout_s)
        return self.run(str(started["id"]))

    def wait(self, run: Run | str, *, timeout_s: float | None = None) -> Run:
        """The run once it has ended. Raises :class:`TimeoutError`; the run itself goes on then."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        every_s = POLL_S if timeout_s is None else min(POLL_S, max(timeout_s / 10, 0.02))
        document: dict[str, Any] = {}
        for document in follow(self._api, _ref(run), every_s=every_s):
            found = run_of(document)
            if deadline is not None and not found.ended and time.monotonic() >= deadline:
                raise TimeoutError(f"The run {found.name} is {found.status} after {timeout_s:g} s.")
        return run_of(document)

    def run(self, run: Run | str) -> Run:
        """A run by name or id, as it is now."""
        return run_of(self._api.eval(_ref(run)))

    def runs(self) -> Iterator[Run]:
        """The runs of the workspace, newest first; further pages are read as they are needed."""
        offset: int | None = 0
        while offset is not None:
            page = self._api.evals(limit=PAGE_LIMIT, offset=offset)
            yield from map(run_of, page.items)
            offset = page.next_offset if page.items else None

    def stop(self, run: Run | str) -> None:
        """Stop a pending or running run. Samples that were graded are kept."""
        self._api.stop_eval(_ref(run))

    def retry(self, run: Run | str, *, secrets: Mapping[str, str] | None = None) -> Run:
        """Run the failed and skipped samples of an ended run again."""
        return self.run(str(self._api.retry_eval(_ref(run), secrets)["id"]))

    def rerun(
        self,
        run: Run | str,
        *,
        commit_sha: str | None = None,
        branch: str | None = None,
        model: str | None = None,
        secrets: Mapping[str, str] | None = None,
        wait: bool = False,
        timeout_s: float | None = None,
    ) -> Run:
        """Start a run on the same rows, seeds and settings, on another commit or model.

        Without either it repeats the run as it was, which shows how much its numbers move by
        themselves. ``secrets`` gives values that only the run had.
        """
        asked = {"commit_sha": commit_sha, "branch": branch, "model": model}
        body: dict[str, Any] = {key: value for key, value in asked.items() if value}
        if secrets:
            body["secrets"] = dict(secrets)
        started = str(self._api.rerun_eval(_ref(run), body)["id"])
        return self.wait(started, timeout_s=timeout_s) if wait else self.run(started)

    def regrade(
        self,
        run: Run | str,
        *,
        branch: str | None = None,
        commit_sha: str | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> Run:
        """Grade the stored samples of an ended run again; the policy is not called.

        By the grader of the run's own commit, or of a pushed ``branch`` or ``commit_sha``.
        """
        options: dict[str, Any] = {
            "regrade": True,
            "branch": branch,
            "commit_sha": commit_sha,
        }
        return self.run(str(self._api.retry_eval(_ref(run), secrets, **options)["id"]))

    def delete(self, run: Run | str) -> None:
        """Delete a run with its samples, trajectories and logs."""
        self._api.delete_eval(_ref(run))

    # ------------------------------------------------------------------ results

    def results(
        self,
        run: Run | str,
        *,
        status: str | None = None,
        passed: bool | None = None,
        error: str | None = None,
        rows: str | None = None,
        worst_first: bool = False,
    ) -> Results:
        """The samples of a run, to iterate over or as a table.

        ``status`` and ``error`` (an error type) pick some of them, ``rows`` those of some rows,
        like ``3,7,10-20``. ``passed=False`` are those below the threshold and those that broke.
        With ``worst_first`` the graded ones come, the lowest reward first.
        """
        return Results(
            self._api,
            _ref(run),
            status=status,
            passed=None if passed is None else str(passed).lower(),
            error=error,
            rows=parse_rows(rows) if rows else None,
            order="reward" if worst_first else "row",
        )

    def verdict(
        self,
        run: Run | str,
        *,
        min_pass_rate: float | None = None,
        min_score: float | None = None,
        min_row_pass_rate: float | None = None,
        min_row_score: float | None = None,
        max_regression_vs: Run | str | None = None,
        max_regression: float = 0.0,
        only_significant: bool = False,
    ) -> Verdict:
        """Whether a run reaches these thresholds; rates and ``max_regression`` are fractions.

        A row threshold holds for each row by itself. ``max_regression_vs`` is a run that this one
        may not fall behind by more than ``max_regression`` of pass rate over the rows of both.
        """
        thresholds = {
            "min_pass_rate": min_pass_rate,
            "min_score": min_score,
            "min_row_pass_rate": min_row_pass_rate,
            "min_row_score": min_row_score,
            "max_regression_vs": _ref(max_regression_vs) if max_regression_vs else None,
            "max_regression": max_regression,
            "only_significant": str(only_significant).lower(),
        }
        return verdict_of(self._api.eval_verdict(_ref(run), thresholds))

    def compare(
        self, baseline: Run | str, *candidates: Run | str, cluster_by: str | None = None
    ) -> dict[str, Any]:
        """Compare runs with a baseline, row by row, as ``osmosis --json eval compare`` does.

        ``comparisons`` of the answer holds one entry for each candidate: ``measures`` with
        difference, interval and p-value, the ``fixed`` and ``broken`` rows, ``notes`` and the
        ``conclusion``. ``cluster_by`` names a column of the dataset whose rows belong together.
        """
        body: dict[str, Any] = {"runs": [_ref(run) for run in (baseline, *candidates)]}
        return self._api.compare_evals(
            {**body, **({"cluster_by": cluster_by} if cluster_by else {})}
        )

    def trajectory(self, run: Run | str, row_index: int, run_index: int = 0) -> dict[str, Any]:
        """The trajectory of one sample with all its steps (an ATIF document)."""
        steps: list[Any] = []
        start: int | None = 0
        document: dict[str, Any] = {}
        while start is not None:
            page = self._api.eval_sample(
                _ref(run), row_index, run_index, **{"from": start, "count": STEPS_PER_CALL}
            )
            document = document or dict(page.get("trajectory") or {})
            steps += page.get("steps") or []
            start = page.get("next_from")
        return {**document, "steps": steps}

    def download(
        self,
        run: Run | str,
        to: str | Path,
        *,
        types: str = ",".join(DEFAULT_KINDS),
        rows: str | None = None,
        overwrite: bool = False,
    ) -> DownloadReport:
        """Fetch the files of a run into the directory ``to``.

        ``types`` names what to fetch: ``metrics``, ``trajectories``, ``artifacts``, ``logs``,
        separated by commas, or ``all``; ``rows`` picks rows, like ``3,7,10-20``. Files that are
        there with their size are skipped. Raises :class:`DownloadIncomplete` when some failed.
        """
        kinds = parse_kinds(types)
        answer = self._api.eval_manifest(_ref(run), kinds, parse_rows(rows) if rows else None)
        manifest = read_manifest(answer, kinds)
        plan = DownloadPlan.of(manifest, Path(to).expanduser(), overwrite=overwrite)
        report = plan.fetch(self._api, _ref(run))
        if report.problems:
            raise DownloadIncomplete(report)
        return report

    def export(
        self, run: Run | str, format: str, to: str | Path | None = None, *, overwrite: bool = False
    ) -> Path:
        """Fetch a run as one file: parquet, jsonl, csv, inspect, atif, junit or html.

        ``to`` is the file's path, or a directory that takes it under its own name.
        """
        target = Path(to).expanduser() if to is not None else None
        _, path = export_run(self._api, _ref(run), format, target, overwrite=overwrite)
        return path

    # ------------------------------------------------------------------ datasets

    def upload_dataset(
        self, file: str | Path, *, name: str | None = None, overwrite: bool = False
    ) -> dict[str, Any]:
        """Upload a .jsonl, .csv or .parquet file and wait until the platform has checked it."""
        path = Path(file).expanduser()
        created = create_dataset(self._api, path, name or path.stem, overwrite=overwrite)
        done = send_dataset(self._api, path, created)
        return wait_until_ready(self._api, str(done.get("id") or created["id"]))

    def download_dataset(self, name: str, to: str | Path, *, overwrite: bool = False) -> Path:
        """Fetch a dataset's file to ``to``, a path or a directory; gives the file's path."""
        _, path = download_dataset(self._api, name, Path(to).expanduser(), overwrite=overwrite)
        return path

    def delete_dataset(self, name: str) -> None:
        """Delete a dataset. Runs that used it keep their results."""
        self._api.delete_dataset(name)

    def _config(self, config: str | Path | Mapping[str, Any], overrides: Mapping[str, Any]) -> Any:
        if isinstance(config, Mapping):
            sections = {
                name: dict(value) if isinstance(value, Mapping) else value
                for name, value in config.items()
            }
            for key, value in overrides.items():
                override(sections, key, value)
            return parse_eval_config(sections)
        if self._root is None:
            return load_eval_config(Path(config).expanduser(), overrides=overrides)
        path = config_path(self._root, config)
        shown = shown_path(self._root, path)
        return load_eval_config(path, shown=shown, overrides=overrides)


def _ref(run: Run | str) -> str:
    return run.id if isinstance(run, Run) else run
