"""``osmosis eval rubric``: a judge model grades conversations that exist already."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from osmosis.cli.output import Operation


@click.command("rubric")
@click.option(
    "-d", "--data", required=True, type=click.Path(path_type=Path), metavar="FILE",
    help="JSONL conversations, or the directory of a downloaded run.",
)  # fmt: skip
@click.option(
    "-r", "--rubric", required=True, metavar="TEXT",
    help="What to grade by, as text or as @FILE.",
)  # fmt: skip
@click.option(
    "--model", "models", required=True, multiple=True, metavar="MODEL",
    help="The judge, such as openai/gpt-5-mini. Given several times: several judges.",
)  # fmt: skip
@click.option(
    "-n", "--number", type=click.IntRange(1, 1000), default=1, metavar="N",
    help="Judgements for each record and judge.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="PATH",
    help="Write the report here; an interrupted command goes on from what it left beside it.",
)  # fmt: skip
@click.option(
    "--score-min", type=float, default=0.0, metavar="X", help="The lowest score there is."
)
@click.option(
    "--score-max", type=float, default=1.0, metavar="X", help="The highest score there is."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="S",
    help="Seconds for one answer (else 30 to 60 by provider); once more with twice the time.",
    show_default=False,
)  # fmt: skip
@click.option(
    "--base-url", metavar="URL",
    help="The address of a server of your own, such as http://127.0.0.1:8000/v1.",
)  # fmt: skip
@click.option("--api-key", metavar="KEY", help="Deprecated: set the provider's variable instead.")
@click.option(
    "--concurrency", type=click.IntRange(1, 1024), default=8, metavar="N",
    help="Judgements at once.",
)  # fmt: skip
@click.option(
    "--max-retries", type=click.IntRange(0, 20), default=4, metavar="N",
    help="Further attempts after 429, 5xx and broken connections.",
)  # fmt: skip
@click.option(
    "--temperature", type=click.FloatRange(0, 2), default=0.0, metavar="X",
    help="Left out for a judge that refuses it.",
)  # fmt: skip
@click.option(
    "--max-tokens", type=click.IntRange(min=1), metavar="N",
    help="Limit of one answer (else the provider's); left out for a judge that refuses it.",
)  # fmt: skip
@click.option(
    "--show-conversation", is_flag=True,
    help="Show the judge the messages before the last answer too.",
)  # fmt: skip
@click.option("--fresh", is_flag=True, help="Ask everything anew, whatever is kept.")
def rubric(
    data: Path, rubric: str, models: Sequence[str], score_min: float, score_max: float, **flags: Any
) -> Operation:
    """Grade conversations by a rubric, with an LLM judge. Needs no workspace and no login.

    Each line of FILE holds 'messages' (the last assistant message with text is graded) or
    'solution_str', and may hold 'ground_truth', 'original_input', 'metadata' and 'id'. An answer
    that states no score is asked for once more, and then the record stays unscored: never a
    guess. Exit code 1 means that scores are missing; the report says which and why.
    """
    # The judges' side is heavy; only this command loads it.
    from osmosis.cli.evals import rubric_run

    return rubric_run.run(data, rubric, models, score_min, score_max, **flags)
