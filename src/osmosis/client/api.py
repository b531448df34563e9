"""Every call of the platform's API that the command line makes, one method each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from osmosis.client.http import Connection

PAGE_LIMIT = 50
COMPLETE_TIMEOUT_S = 120.0
ROOT = "/api/cli"


@dataclass(frozen=True)
class Page:
    """One page of a list. ``extra`` holds what the platform said beside the items."""

    items: list[dict[str, Any]]
    total_count: int
    has_more: bool
    next_offset: int | None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LogPage:
    """One page of a log, oldest entry first; ``next_cursor`` leads to older ones."""

    entries: list[dict[str, Any]]
    next_cursor: str | None


class Api(Connection):
    """The platform, seen from one workspace."""

    # ------------------------------------------------------------------ server and account

    def health(self, timeout_s: float = 5.0) -> dict[str, Any]:
        return self.call("GET", "/api/health", scoped=False, timeout_s=timeout_s)

    def verify(self, *, scoped: bool = False) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/verify", scoped=scoped)

    def device_authorize(self, device_name: str) -> dict[str, Any]:
        body = {"deviceName": device_name}
        return self.call("POST", f"{ROOT}/device/authorize", body=body, scoped=False)

    def device_token(self, device_code: str) -> dict[str, Any]:
        body = {"device_code": device_code}
        return self.call("POST", f"{ROOT}/device/token", body=body, scoped=False)

    def revoke_token(self, token_id: str) -> None:
        self.call("DELETE", f"{ROOT}/tokens/{_ref(token_id)}", scoped=False, timeout_s=5.0)

    def login_link(self) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/login-links", body={}, scoped=False)

    # ------------------------------------------------------------------ workspaces and git

    def workspaces(self) -> list[dict[str, Any]]:
        return self.call("GET", f"{ROOT}/workspaces", scoped=False).get("workspaces") or []

    def create_workspace(self, name: str, repository: str | None = None) -> dict[str, Any]:
        body = {"name": name, **({"repository": repository} if repository else {})}
        return self.call("POST", f"{ROOT}/workspaces", body=body, scoped=False)

    def connect_workspace(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call(
            "POST", f"{ROOT}/workspaces/connect", body=body, scoped=False, timeout_s=120.0
        )

    def sync(self) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/git/sync", body={}, timeout_s=120.0)

    def clear_response_cache(self) -> dict[str, Any]:
        return self.call("DELETE", f"{ROOT}/response-cache", timeout_s=120.0)

    # ------------------------------------------------------------------ datasets

    def create_dataset(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/datasets", body=body)

    def complete_dataset(self, dataset_id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        path = f"{ROOT}/datasets/{_ref(dataset_id)}/complete"
        return self.call("POST", path, body=body, timeout_s=COMPLETE_TIMEOUT_S)

    def abort_dataset(self, dataset_id: str) -> None:
        self.call("POST", f"{ROOT}/datasets/{_ref(dataset_id)}/abort", body={})

    def datasets(self, *, limit: int = PAGE_LIMIT, everything: bool = False) -> Page:
        return self._page(f"{ROOT}/datasets", "datasets", limit, everything)

    def dataset(self, ref: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/datasets/{_ref(ref)}")

    def dataset_logs(self, ref: str, **paging: Any) -> LogPage:
        return self._logs(f"{ROOT}/datasets/{_ref(ref)}/logs", paging)

    def dataset_download(self, ref: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/datasets/{_ref(ref)}/download")

    def delete_dataset(self, ref: str) -> dict[str, Any]:
        return self.call("DELETE", f"{ROOT}/datasets/{_ref(ref)}")

    # ------------------------------------------------------------------ secrets

    def secrets(
        self, *, scope: str = "all", limit: int = PAGE_LIMIT, everything: bool = False
    ) -> Page:
        path = f"{ROOT}/environment-secrets"
        return self._page(path, "environment_secrets", limit, everything, scope=scope)

    def set_secret(self, name: str, value: str, scope: str) -> dict[str, Any]:
        body = {"name": name, "value": value, "scope": scope}
        return self.call("POST", f"{ROOT}/environment-secrets", body=body)

    def delete_secret(self, name: str, scope: str) -> None:
        body = {"name": name, "scope": scope}
        self.call("DELETE", f"{ROOT}/environment-secrets", body=body)

    # ------------------------------------------------------------------ rollouts and models

    def rollouts(
        self, *, branch: str | None = None, limit: int = PAGE_LIMIT, everything: bool = False
    ) -> Page:
        return self._page(f"{ROOT}/rollouts", "rollouts", limit, everything, branch=branch)

    def endpoints(self, *, limit: int = PAGE_LIMIT, everything: bool = False) -> Page:
        return self._page(f"{ROOT}/model-endpoints", "model_endpoints", limit, everything)

    def add_endpoint(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/model-endpoints", body=body)

    def remove_endpoint(self, name: str) -> None:
        self.call("DELETE", f"{ROOT}/model-endpoints/{_ref(name)}")

    def base_models(self, *, limit: int = PAGE_LIMIT, everything: bool = False) -> Page:
        return self._page(f"{ROOT}/models/base", "models", limit, everything)

    def lora_models(self, *, limit: int = PAGE_LIMIT, everything: bool = False) -> Page:
        return self._page(f"{ROOT}/models/lora", "models", limit, everything)

    def base_model(self, name: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/models/base/{_ref(name)}")

    def lora_model(self, name: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/models/{_ref(name)}")

    def deploy_model(self, name: str) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/models/{_ref(name)}/deploy", body={})

    def undeploy_model(self, name: str) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/models/{_ref(name)}/undeploy", body={})

    # ------------------------------------------------------------------ training runs

    def submit_training(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/training-runs", body=body, timeout_s=120.0)

    def training_runs(self, *, limit: int = PAGE_LIMIT, everything: bool = False) -> Page:
        return self._page(f"{ROOT}/training-runs", "training_runs", limit, everything)

    def training_run(self, ref: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/training-runs/{_ref(ref)}")

    def training_metrics(self, ref: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/training-runs/{_ref(ref)}/metrics")

    def training_checkpoints(self, ref: str) -> list[dict[str, Any]]:
        answer = self.call("GET", f"{ROOT}/training-runs/{_ref(ref)}/checkpoints")
        return answer.get("checkpoints") or []

    def training_logs(self, ref: str, **paging: Any) -> LogPage:
        return self._logs(f"{ROOT}/training-runs/{_ref(ref)}/logs", paging)

    def stop_training(self, ref: str) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/training-runs/{_ref(ref)}/stop", body={})

    # ------------------------------------------------------------------ evaluation runs

    def plan_eval(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/eval-runs/plan", body=body, timeout_s=120.0)

    def submit_eval(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/eval-runs", body=body, timeout_s=120.0)

    def evals(self, *, limit: int = PAGE_LIMIT, offset: int = 0, everything: bool = False) -> Page:
        return self._page(f"{ROOT}/eval-runs", "eval_runs", limit, everything, start=offset)

    def eval(self, ref: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/eval-runs/{_ref(ref)}")

    def eval_metrics(self, ref: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/eval-runs/{_ref(ref)}/metrics")

    def eval_intervals(self, ref: str, cluster_by: str) -> dict[str, Any]:
        path = f"{ROOT}/eval-runs/{_ref(ref)}/intervals"
        return self.call("GET", path, params={"cluster_by": cluster_by}, timeout_s=120.0)

    def compare_evals(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/eval-runs/compare", body=body, timeout_s=120.0)

    def eval_logs(self, ref: str, **paging: Any) -> LogPage:
        return self._logs(f"{ROOT}/eval-runs/{_ref(ref)}/logs", paging)

    def eval_samples(self, ref: str, **params: Any) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/eval-runs/{_ref(ref)}/samples", params=params)

    def eval_sample(
        self, ref: str, row_index: int, run_index: int, **params: Any
    ) -> dict[str, Any]:
        path = f"{ROOT}/eval-runs/{_ref(ref)}/samples/{row_index}/{run_index}"
        return self.call("GET", path, params=params)

    def eval_verdict(self, ref: str, thresholds: Mapping[str, Any]) -> dict[str, Any]:
        path = f"{ROOT}/eval-runs/{_ref(ref)}/verdict"
        return self.call("GET", path, params=dict(thresholds), timeout_s=120.0)

    def create_export(self, ref: str, format: str) -> dict[str, Any]:
        path = f"{ROOT}/eval-runs/{_ref(ref)}/exports"
        return self.call("POST", path, body={"format": format}, timeout_s=120.0)

    def export(self, ref: str, export_id: str) -> dict[str, Any]:
        return self.call("GET", f"{ROOT}/eval-runs/{_ref(ref)}/exports/{_ref(export_id)}")

    def eval_manifest(
        self, ref: str, kinds: Sequence[str], rows: str | None = None
    ) -> dict[str, Any]:
        path = f"{ROOT}/eval-runs/{_ref(ref)}/samples/manifest"
        params = {"types": ",".join(kinds), "rows": rows}
        return self.call("GET", path, params=params, timeout_s=120.0)

    def eval_download_urls(self, ref: str, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        path = f"{ROOT}/eval-runs/{_ref(ref)}/samples/download-urls"
        return self.call("POST", path, body={"items": list(items)})

    def retry_eval(
        self,
        ref: str,
        secrets: Mapping[str, str] | None = None,
        advanced: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """``advanced``: budgets and other limits in place of the run's own. ``options``:
        ``regrade=True``, and ``branch`` or ``commit_sha`` of another grader."""
        body = {key: value for key, value in options.items() if value is not None}
        if secrets:
            body["secrets"] = dict(secrets)
        if advanced:
            body["advanced"] = dict(advanced)
        return self.call("POST", f"{ROOT}/eval-runs/{_ref(ref)}/retry", body=body, timeout_s=120.0)

    def rerun_eval(self, ref: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/eval-runs/{_ref(ref)}/rerun", body=body, timeout_s=120.0)

    def stop_eval(self, ref: str) -> dict[str, Any]:
        return self.call("POST", f"{ROOT}/eval-runs/{_ref(ref)}/stop", body={})

    def delete_eval(self, ref: str) -> dict[str, Any]:
        return self.call("DELETE", f"{ROOT}/eval-runs/{_ref(ref)}")

    # ------------------------------------------------------------------ pages

    def _page(
        self, path: str, key: str, limit: int, everything: bool, start: int = 0, **filters: Any
    ) -> Page:
        """One page, or every page joined when ``everything`` is asked for."""
        items: list[dict[str, Any]] = []
        offset: int | None = start
        while True:
            params = {"limit": PAGE_LIMIT if everything else limit, "offset": offset, **filters}
            answer = self.call("GET", path, params=params)
            found = answer.get(key) or []
            items += found
            offset = answer.get("next_offset")
            if not everything or offset is None or not found:
                break
        extra = {
            name: value
            for name, value in answer.items()
            if name not in (key, "total_count", "has_more", "next_offset")
        }
        total = int(answer.get("total_count") or 0)
        more = bool(answer.get("has_more")) and not everything
        return Page(items, total, more, offset if not everything else None, extra)

    def _logs(self, path: str, paging: Mapping[str, Any]) -> LogPage:
        answer = self.call("GET", path, params={"direction": "older", **paging})
        return LogPage(answer.get("logs") or [], answer.get("next_cursor"))


def _ref(name: str) -> str:
    return quote(name, safe="")
