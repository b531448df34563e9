"""What a claiming worker gets: the run, resolved, with its secret values and endpoints."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from osmosis.platform.db.models import Endpoint, Run
from osmosis.platform.evals.provided import open_provided
from osmosis.platform.models.service import all_endpoints
from osmosis.platform.runners.replays import replays_of
from osmosis.platform.secrets.service import resolve_secrets
from osmosis.platform.security.vault import Vault
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import EvaluationSpec, ModelEndpoint
from osmosis.wire.spending import Spending


async def build_spec(session: AsyncSession, vault: Vault, run: Run) -> EvaluationSpec:
    """The spec of a claimed run. Raises :class:`RunFailed` when a secret is gone since submit."""
    provided = open_provided(vault, run)
    required: list[str] = run.config.get("secrets", [])
    endpoints = await all_endpoints(session, run.workspace_id)
    keys = [endpoint.api_key_secret for endpoint in endpoints if endpoint.api_key_secret]
    stored = await resolve_secrets(
        session, run.workspace_id, run.creator_id or "", {*required, *keys} - provided.keys()
    )
    missing = [name for name in required if name not in provided and name not in stored]
    if missing:
        raise RunFailed(
            "secret_missing",
            f"Secret(s) not found: {', '.join(missing)}. They were deleted after the submit.",
            hint=f"Store each again with `osmosis secret set {missing[0]}` and submit again.",
        )
    values = {name: secret.reveal(vault) for name, secret in stored.items()} | provided
    evaluation: dict[str, Any] = run.config["evaluation"]
    return EvaluationSpec(
        run_id=run.id,
        name=run.name,
        workspace_id=run.workspace_id,
        generation=run.generation,
        commit_sha=code_commit(run),
        rollout=run.rollout,
        entrypoint=run.entrypoint,
        model_path=run.model_path,
        n=run.n,
        batch_size=evaluation["batch_size"],
        pass_threshold=run.pass_threshold,
        agent_workflow_timeout_s=evaluation["agent_workflow_timeout_s"],
        grader_timeout_s=evaluation["grader_timeout_s"],
        selected_rows=run.selected_rows,
        total_rows=run.total_rows,
        dataset_name=run.dataset_name,
        advanced=run.config.get("advanced", {}),
        env=run.env,
        secrets={name: values[name] for name in required},
        endpoints=[_endpoint(endpoint, values) for endpoint in endpoints],
        replays=replays_of(run),
        resume=run.sample_count > 0,
        spent=Spending(tokens=run.spent_tokens, usd=run.spent_usd),
        regrade=run.regrade is not None,
    )


def code_commit(run: Run) -> str:
    """The commit whose code executes the run: a newer grader's where one grades it again."""
    return run.regrade["commit_sha"] if run.regrade else run.commit_sha


def _endpoint(endpoint: Endpoint, values: dict[str, str]) -> ModelEndpoint:
    return ModelEndpoint(
        name=endpoint.name,
        base_url=endpoint.base_url,
        model=endpoint.model,
        api_key=values.get(endpoint.api_key_secret or ""),
    )
