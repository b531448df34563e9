"""The main job, from outside: push, submit, follow, read."""

from __future__ import annotations

import json

from lab.workspace import Workspace
from tests.e2e.configs import eval_config


def test_a_pushed_workspace_is_evaluated_and_its_numbers_agree_with_its_samples(
    workspace: Workspace,
) -> None:
    workspace.write("configs/eval/e1.toml", eval_config(limit=30, n=2, batch_size=8))
    run = workspace.submit("configs/eval/e1.toml")
    workspace.wait(run)
    info = workspace.info(run)
    assert info["eval_run"]["status"] == "finished"
    results = info["results"]
    assert results["total_runs"] == 60
    assert results["sampled_rows"] == 30
    assert results["graded"] + results["failed"] + results["skipped"] >= 60
    assert 0 < results["pass_rate"] < 1, "the scripted model makes some mistakes"
    assert set(results["reward_stats"]["pass_at_k"]) == {"1", "2"}
    metrics = info["metrics"]
    assert metrics["overview"]["total_samples"] == 60
    assert [point["k"] for point in metrics["pass_at_k"]] == [1, 2]
    server_log = (workspace.lab.data / "logs" / "server.log").read_text()
    assert "forked" not in server_log, "a shard is forked without a word"


def test_without_limit_a_tenth_of_the_rows_is_drawn_and_the_seed_is_shown(
    workspace: Workspace,
) -> None:
    workspace.write("configs/eval/e2.toml", eval_config(batch_size=16))
    total = workspace.json("dataset", "info", "multiply")["data"]["row_count"]
    info = workspace.wait(workspace.start("configs/eval/e2.toml"))
    assert info["results"]["sampled_rows"] == max(1, (total + 5) // 10)
    assert isinstance(info["selection"]["seed"], int)
    assert info["selection"]["kind"] == "sample"


def test_an_agent_with_tools_makes_several_model_calls_a_sample(workspace: Workspace) -> None:
    workspace.write(
        "configs/eval/e3.toml",
        eval_config("calculator", model="scripted/models/calculator.toml", limit=5, batch_size=5),
    )
    info = workspace.wait(workspace.start("configs/eval/e3.toml"))
    assert info["eval_run"]["status"] == "finished"
    assert info["results"]["passed"] > 0


def test_a_judge_grades_on_its_own_route(workspace: Workspace) -> None:
    workspace.write(
        "configs/eval/e4.toml",
        eval_config(
            "judged",
            model="scripted/models/judged.toml",
            limit=4,
            batch_size=4,
            advanced={"judge_model": "scripted/models/judged.toml"},
        ),
    )
    info = workspace.wait(workspace.start("configs/eval/e4.toml"))
    assert info["eval_run"]["status"] == "finished", info
    assert info["results"]["graded"] == 4


def test_the_same_submit_twice_gives_two_runs(workspace: Workspace) -> None:
    workspace.write("configs/eval/e5.toml", eval_config(limit=2, batch_size=2))
    first = workspace.submit("configs/eval/e5.toml")
    second = workspace.submit("configs/eval/e5.toml")
    assert first != second
    for run in (first, second):
        assert workspace.wait(run)["results"]["total_runs"] == 2


def test_a_submit_reports_all_mistakes_at_once(workspace: Workspace) -> None:
    broken = eval_config(limit=0, n=0, batchsize=4).replace("rollout =", "rolout =")
    workspace.write("configs/eval/broken.toml", broken)
    done = workspace.osmosis("--json", "eval", "submit", "configs/eval/broken.toml", "--yes", rc=1)
    assert done.stdout == ""
    error = json.loads(done.stderr.strip().splitlines()[-1])["error"]
    assert error["code"] == "VALIDATION"
    keys = {issue["key"] for issue in error["details"]["issues"]}
    assert {"experiment.rolout", "evaluation.limit", "evaluation.n", "evaluation.batchsize"} <= keys


def test_a_terminal_run_cannot_be_stopped_and_can_be_deleted(workspace: Workspace) -> None:
    workspace.write("configs/eval/e6.toml", eval_config(limit=2, batch_size=2))
    run = workspace.start("configs/eval/e6.toml")
    workspace.wait(run)
    done = workspace.osmosis("--json", "eval", "stop", run, "--yes", rc=1)
    assert json.loads(done.stderr.strip().splitlines()[-1])["error"]["code"] == "CONFLICT"
    workspace.osmosis("eval", "delete", run, "--yes")
    gone = workspace.osmosis("--json", "eval", "info", run, rc=1)
    assert json.loads(gone.stderr.strip().splitlines()[-1])["error"]["code"] == "NOT_FOUND"


def test_logs_name_every_stage(workspace: Workspace) -> None:
    workspace.write("configs/eval/e7.toml", eval_config(limit=2, batch_size=2))
    run = workspace.start("configs/eval/e7.toml")
    workspace.wait(run)
    steps = {entry["step"] for entry in workspace.json("eval", "logs", run)["items"]}
    assert "install" in steps
    assert len(steps) >= 3


def test_the_latest_run_is_shown_without_a_name(workspace: Workspace) -> None:
    workspace.write("configs/eval/e8.toml", eval_config(limit=1))
    run = workspace.start("configs/eval/e8.toml")
    workspace.wait(run)
    assert workspace.json("eval", "info")["data"]["eval_run"]["name"] == run


def test_a_pinned_commit_runs_its_own_code(workspace: Workspace) -> None:
    """A cached environment never carries another commit's code."""
    main = workspace.directory / "rollouts/multiply/main.py"
    before = main.read_text()
    head = workspace.lab.run(["git", "-C", workspace.directory, "rev-parse", "HEAD"]).stdout.strip()
    main.write_text("raise SystemExit('the newer commit')\n")
    workspace.push("Break multiply")
    try:
        workspace.write("configs/eval/old.toml", eval_config(limit=2, commit_sha=head))
        workspace.write("configs/eval/new.toml", eval_config(limit=2))
        old = workspace.wait(workspace.start("configs/eval/old.toml"))
        run = workspace.osmosis(
            "--json", "eval", "submit", "configs/eval/new.toml", "--yes", rc=None
        )
        assert old["eval_run"]["status"] == "finished"
        if run.returncode == 0:
            new = workspace.wait(json.loads(run.stdout)["resource"]["name"])
            assert new["eval_run"]["status"] == "failed"
            assert "the newer commit" in json.dumps(new)
        else:
            assert "the newer commit" in run.stderr
    finally:
        main.write_text(before)
        workspace.push("Mend multiply")
