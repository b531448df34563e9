"""What the demo prints beside the commands' own output."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

CONSOLE = Console(highlight=False)
SHOWN_CHARACTERS = 600
STYLES = {"system": "dim", "user": "cyan", "agent": "green"}


def heading(text: str) -> None:
    CONSOLE.print()
    CONSOLE.rule(f"[bold]{text}", align="left")


def note(text: str) -> None:
    CONSOLE.print(text, markup=False, soft_wrap=True)


def command(words: list[str]) -> None:
    CONSOLE.print(f"[dim]$[/] [bold]{' '.join(words)}[/]", soft_wrap=True)


def print_conversation(title: str, sample: dict[str, Any]) -> None:
    """One sample's steps, its reward and, when it failed, why."""
    text = Text()
    for step in sample["steps"]:
        source = str(step.get("source"))
        text.append(f"{source:>7}  ", style="bold " + STYLES.get(source, "white"))
        text.append(_shortened(step.get("message")) + "\n")
        for call in step.get("tool_calls") or []:
            text.append(
                f"         → {call['function_name']}({call['arguments']})\n", style="yellow"
            )
        for result in (step.get("observation") or {}).get("results", []):
            text.append(f"         ← {_shortened(result.get('content'))}\n", style="yellow")
    reward = sample.get("reward")
    text.append(f" reward  {'none' if reward is None else f'{reward:g}'}", style="bold")
    if sample.get("error_message"):
        text.append(f"\n  error  {sample['error_message']}", style="red")
    CONSOLE.print(Panel(text, title=title, title_align="left", expand=True))


def _shortened(message: object) -> str:
    text = message if isinstance(message, str) else str(message or "")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + " …"
