"""What colour a status has, wherever it is shown."""

from __future__ import annotations

_STYLES = {
    "pending": "yellow",
    "queued": "yellow",
    "uploading": "yellow",
    "processing": "yellow",
    "running": "blue",
    "finished": "green",
    "uploaded": "green",
    "success": "green",
    "failed": "red",
    "error": "red",
    "stopped": "bright_black",
    "cancelled": "bright_black",
}


def status_style(status: str) -> str:
    """The style of a status text; its first word decides (``running (installing)``)."""
    return _STYLES.get(status.split(" ", 1)[0].lower(), "")
