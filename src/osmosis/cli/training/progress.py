"""How far a training run has come."""

from __future__ import annotations

from typing import Any


def progress(run: Any) -> dict[str, Any]:
    """The progress object of a run, or nothing while its length is unknown."""
    done, total = run.get("current_step"), run.get("total_steps")
    if not isinstance(total, int) or total <= 0:
        return {}
    completed = min(max(int(done or 0), 0), total)
    return {"progress": {"completed": completed, "total": total, "unit": "steps"}}
