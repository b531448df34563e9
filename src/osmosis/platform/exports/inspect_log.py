"""The run as a log of Inspect (``.eval``), which ``inspect view`` opens.

The shape is that of inspect_ai's EvalLog, version 2: a ZIP archive with a member for each sample,
the summaries of all samples, and a header with everything else. A row is a sample of Inspect's, a
run of the row an epoch; the reward is the score ``reward``, and passing is the score ``passed``.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import orjson

from osmosis import __version__
from osmosis.platform.exports.archives import member, new_archive
from osmosis.platform.exports.stored import StoredRun, StoredSample

LOG_VERSION = 2
STATUSES = {"finished": "success", "failed": "error", "stopped": "cancelled"}
ROLES = {"system": "system", "user": "user", "agent": "assistant"}
SPOOL_BYTES = 8 << 20
SHOWN_INPUT_CHARS = 1000
USAGE = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_cache_read": "cached_tokens",
    "input_tokens_cache_write": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
}

Json = dict[str, Any]


def write_log(run: StoredRun, path: Path) -> None:
    """Write the log, sample by sample, the header last."""
    usage: Counter[str] = Counter()
    with (
        new_archive(path) as archive,
        tempfile.SpooledTemporaryFile(SPOOL_BYTES) as summaries,
    ):
        _put(
            archive,
            "_journal/start.json",
            {"version": LOG_VERSION, "eval": _spec(run), "plan": _plan()},
        )
        for sample in run.samples():
            written = _sample(run, sample)
            for spent in written["model_usage"].values():
                usage.update(spent)
            name = f"samples/{written['id']}_epoch_{written['epoch']}.json"
            _put(archive, name, written)
            summaries.write(b"," if summaries.tell() else b"[")
            summaries.write(orjson.dumps(_summary(written)))
        summaries.write(b"]" if summaries.tell() else b"[]")
        summaries.seek(0)
        with archive.open(member("summaries.json"), "w", force_zip64=True) as out:
            while piece := summaries.read(SPOOL_BYTES):
                out.write(piece)
        _put(archive, "header.json", _header(run, usage))


def _put(archive: ZipFile, name: str, content: Json) -> None:
    archive.writestr(member(name), orjson.dumps(content))


def _spec(run: StoredRun) -> Json:
    document = run.document
    selection: Mapping[str, Any] = document["selection"]
    git = {"type": "git", "origin": "", "commit": document["commit_sha"]}
    return {
        "eval_id": run.id,
        "run_id": run.id,
        "task_id": run.id,
        "created": document["eval_run"]["created_at"],
        "task": run.name_of("rollout"),
        "task_file": f"rollouts/{run.name_of('rollout')}/{document['entrypoint']}",
        "dataset": {
            "name": run.name_of("dataset"),
            "samples": selection["selected_rows"],
            "shuffled": False,
        },
        "model": run.model,
        "config": {"epochs": run.n},
        "revision": git,
        "packages": {"osmosis-platform": __version__},
        "metadata": {"run": run.name, "selection": selection, "config": document["config"]},
        "scorers": [{"name": "reward"}, {"name": "passed"}],
    }


def _plan() -> Json:
    return {"name": "rollout", "steps": []}


def _header(run: StoredRun, usage: Counter[str]) -> Json:
    about = run.document["eval_run"]
    header: Json = {
        "version": LOG_VERSION,
        "status": STATUSES.get(about["status"], "started"),
        "eval": _spec(run),
        "plan": _plan(),
        "results": _results(run),
        "stats": {
            "started_at": about.get("started_at") or "",
            "completed_at": about.get("completed_at") or "",
            "model_usage": {run.model: dict(usage)} if usage else {},
        },
    }
    error = run.document.get("error")
    if error:
        header["error"] = _error(str(error.get("message")))
    return header


def _results(run: StoredRun) -> Json:
    summary = run.summary
    scores: list[Json] = []
    if summary.reward_stats is not None:
        scores.append(_score("reward", summary.graded, mean=summary.reward_stats.mean))
    if summary.completed_samples:
        scores.append(_score("passed", summary.completed_samples, accuracy=summary.pass_rate))
    return {
        "total_samples": summary.total_samples,
        "completed_samples": summary.completed_samples,
        "scores": scores,
    }


def _score(name: str, scored: int, **metrics: float) -> Json:
    return {
        "name": name,
        "scorer": name,
        "scored_samples": scored,
        "metrics": {key: {"name": key, "value": value} for key, value in metrics.items()},
    }


def _sample(run: StoredRun, sample: StoredSample) -> Json:
    document = sample.trajectory() or {}
    steps = [step for step in document.get("steps", []) if isinstance(step, dict)]
    messages = [message for step in steps for message in _messages(step)]
    prompt = messages[: _first_answer(messages)]
    last = next((m for m in reversed(messages) if m["role"] == "assistant"), None)
    about = (document.get("extra") or {}).get("osmosis") or {}
    record = sample.record
    written: Json = {
        "id": sample.source_row,
        "epoch": sample.run_index + 1,
        "input": prompt,
        "target": str(about.get("label") or ""),
        "messages": messages,
        "output": _output(run.model, last),
        "scores": _scores(sample),
        "metadata": {
            "row_index": sample.row_index,
            "status": sample.status,
            "error_type": sample.error_type,
            "metrics": record.get("metrics") or {},
        },
        "store": {},
        "events": _events(run.model, messages, _time(record.get("started_at"))),
        "attachments": {},
        "model_usage": _usage(run.model, sample.calls()),
        "total_time": sample.duration_ms / 1000,
        "working_time": max(0.0, sample.duration_ms - (record.get("queue_ms") or 0.0)) / 1000,
        "uuid": sample.rollout_id,
    }
    for name, key in (("started_at", "started_at"), ("completed_at", "finished_at")):
        if record.get(key) is not None:
            written[name] = _time(record[key])
    if sample.status == "failed":
        written["error"] = _error(f"{sample.error_type}: {record.get('error_message') or ''}")
    return written


def _scores(sample: StoredSample) -> Json:
    if sample.status == "skipped":
        return {}
    scores: Json = {"passed": {"value": "C" if sample.passed else "I"}}
    if sample.reward is not None:
        scores["reward"] = {"value": sample.reward}
    return scores


def _messages(step: Mapping[str, Any]) -> Iterator[Json]:
    """A step of a trajectory as Inspect's messages: itself, then what its tools answered."""
    role = ROLES.get(str(step.get("source")), "user")
    identity = f"{step.get('step_id')}"
    message: Json = {"id": identity, "role": role, "content": _text(step.get("message"))}
    names: dict[str, str] = {}
    if role == "assistant":
        if thought := step.get("reasoning_content"):
            message["content"] = [
                {"type": "reasoning", "reasoning": _text(thought)},
                {"type": "text", "text": message["content"]},
            ]
        if calls := _tool_calls(step):
            message["tool_calls"] = calls
            names = {call["id"]: call["function"] for call in calls}
    yield message
    results = (step.get("observation") or {}).get("results") or []
    for position, result in enumerate(results):
        call = str(result.get("source_call_id") or "")
        yield {
            "id": f"{identity}.{position}",
            "role": "tool",
            "content": _text(result.get("content")),
            **({"tool_call_id": call, "function": names[call]} if call in names else {}),
        }


def _tool_calls(step: Mapping[str, Any]) -> list[Json]:
    calls: list[Json] = []
    for call in step.get("tool_calls") or []:
        arguments = call.get("arguments")
        calls.append(
            {
                "id": str(call.get("tool_call_id") or len(calls)),
                "function": str(call.get("function_name") or "unknown"),
                "arguments": arguments if isinstance(arguments, dict) else {"_raw": arguments},
            }
        )
    return calls


def _first_answer(messages: list[Json]) -> int:
    return next((i for i, m in enumerate(messages) if m["role"] == "assistant"), len(messages))


def _events(model: str, messages: list[Json], moment: str) -> list[Json]:
    """What the transcript of ``inspect view`` shows: an event for each answer of the model, with
    the messages since the last one."""
    events: list[Json] = []
    since: list[Json] = []
    for message in messages:
        if message["role"] == "assistant":
            events.append(
                {
                    "event": "model",
                    "uuid": f"event-{len(events)}",
                    "timestamp": moment,
                    "working_start": 0.0,
                    "model": model,
                    "input": since,
                    "tools": [],
                    "tool_choice": "auto",
                    "config": {},
                    "output": _output(model, message),
                }
            )
            since = []
        else:
            since.append(message)
    return events


def _output(model: str, last: Json | None) -> Json:
    if last is None:
        return {"model": model, "choices": []}
    stop = "tool_calls" if last.get("tool_calls") else "stop"
    return {"model": model, "choices": [{"message": last, "stop_reason": stop}]}


def _usage(model: str, calls: list[dict[str, Any]]) -> Json:
    spent: Counter[str] = Counter()
    for call in calls:
        if call.get("route", "policy") == "policy":
            spent.update({name: call.get(key) or 0 for name, key in USAGE.items()})
    if not spent:
        return {}
    spent["total_tokens"] = spent["input_tokens"] + spent["output_tokens"]
    return {model: dict(spent)}


def _summary(sample: Json) -> Json:
    """What the list of samples shows, without opening one."""
    prompt = " ".join(_text(message["content"]) for message in sample["input"])
    keys = ("id", "epoch", "target", "metadata", "scores", "model_usage", "total_time", "uuid")
    summary: Json = {key: sample[key] for key in keys}
    summary.update(input=prompt[:SHOWN_INPUT_CHARS], completed=True)
    summary["message_count"] = len(sample["messages"])
    if "error" in sample:
        summary["error"] = sample["error"]["message"]
    return summary


def _error(message: str) -> Json:
    return {"message": message, "traceback": message, "traceback_ansi": message}


def _time(seconds: float | None) -> str:
    return datetime.fromtimestamp(seconds or 0.0, UTC).isoformat()


def _text(content: Any) -> str:
    """Content as text; a part that is none is named by its type."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts: list[Any] = content
        return "\n".join(_part(part) for part in parts)
    return orjson.dumps(content).decode()


def _part(part: Any) -> str:
    if isinstance(part, dict):
        return str(part.get("text") or f"[{part.get('type', 'part')}]")
    return str(part)
