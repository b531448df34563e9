"""The keys of ``[advanced]`` by name: what each means, and the flag that stands for it.

Light, so that commands can make their flags from it: ``advanced.py`` adds types and bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class AdvancedKey(NamedTuple):
    """One key. ``tuning``: it changes how a run is executed, not what its samples are."""

    kind: type[int] | type[float] | type[str] | type[bool]
    meaning: str
    flag: str
    tuning: bool = False


ADVANCED_KEYS: Mapping[str, AdvancedKey] = {
    "sample_seed": AdvancedKey(
        int, "Seed of the random row sample; drawn when absent.", "--seed", tuning=True
    ),
    "model_seed": AdvancedKey(int, "`seed` sent with each policy call.", "--model-seed"),
    "temperature": AdvancedKey(
        float, "`temperature` of policy calls that set none.", "--temperature"
    ),
    "top_p": AdvancedKey(float, "`top_p` of policy calls that set none.", "--top-p"),
    "max_tokens": AdvancedKey(
        int, "`max_tokens` of policy calls that set none, per call.", "--max-tokens"
    ),
    "max_total_tokens": AdvancedKey(
        int,
        "Budget of the run in tokens, policy and judge; once spent, no new sample starts.",
        "--max-total-tokens",
        tuning=True,
    ),
    "max_cost_usd": AdvancedKey(
        float,
        "Budget of the run in US dollars, policy and judge; once spent, no new sample starts.",
        "--max-cost-usd",
        tuning=True,
    ),
    "max_retries": AdvancedKey(
        int,
        "Retries of one model call after 429, 5xx or a broken link.",
        "--max-retries",
        tuning=True,
    ),
    "max_retry_s": AdvancedKey(
        float,
        "Seconds after its first failure in which a model call is still retried.",
        "--max-retry-s",
        tuning=True,
    ),
    "max_concurrent_calls": AdvancedKey(
        int,
        "Model calls in flight at once under one key, policy and judge together. "
        "Absent: `batch_size`, at least 64.",
        "--max-concurrent-calls",
        tuning=True,
    ),
    "judge_model": AdvancedKey(
        str, "Model of the judge route that graders may call.", "--judge-model"
    ),
    "teardown_grace_s": AdvancedKey(
        float,
        "Seconds a sample may take beyond its two timeouts: queueing, start, teardown.",
        "--teardown-grace-s",
        tuning=True,
    ),
    "export_timeout_s": AdvancedKey(
        float,
        "Seconds in which a sample's artifacts must be sent; the rest is left out.",
        "--export-timeout-s",
        tuning=True,
    ),
    "outage_wait_s": AdvancedKey(
        float,
        "Seconds a model that stops answering is waited for before the run is halted.",
        "--outage-wait-s",
        tuning=True,
    ),
    "cache": AdvancedKey(
        bool,
        "Keep complete answers, and give them again to the same call of a later run.",
        "--cache",
        tuning=True,
    ),
    "network": AdvancedKey(
        str,
        "`loopback`: the rollout reaches its models and nothing else of any network; refused where "
        "no sandbox can enforce it.",
        "--network",
    ),
}

TUNING = frozenset(name for name, key in ADVANCED_KEYS.items() if key.tuning)
"""Keys that may differ when a run goes on."""

LIMITS = ("max_total_tokens", "max_cost_usd", "max_retries", "max_retry_s", "max_concurrent_calls")
"""Those of them that a retry may change."""
