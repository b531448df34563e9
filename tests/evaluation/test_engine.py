"""The engine on a fake rollout server, gateway and sink: verdicts, limits, order, durability."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter

import pytest

from osmosis.evaluation.engine import LANES_A_TURN, evaluate
from osmosis.evaluation.wall_clock import wall_clock
from osmosis.wire.errors import RunFailed
from osmosis.workspace.advanced import AdvancedSection
from tests.evaluation.engine_fakes import MemorySink, plan, row, rows, until


async def run(world, tmp_path, row_source, sink=None, *, done=frozenset(), stop=None, **options):
    sink = sink or MemorySink()
    async with asyncio.timeout(30):
        outcome = await evaluate(
            plan(tmp_path, **options),
            row_source,
            done,
            sink,
            stop or asyncio.Event(),
            parts=world.parts(),
        )
    assert world.all_stopped
    return outcome, sink


async def test_every_row_and_run_gets_exactly_one_record(world, tmp_path):
    outcome, sink = await run(world, tmp_path, rows(*["reward 0.5"] * 10), n=3, selected_rows=10)
    assert outcome.status == "finished"
    keys = [(record.row_index, record.run_index) for record in sink.records]
    assert sorted(keys) == [(row, run) for row in range(10) for run in range(3)]
    assert len({record.rollout_id for record in sink.records}) == 30
    assert {record.source_row for record in sink.records} == {0, 10, 20, 30, 40, 50, 60, 70, 80, 90}
    assert {record.reward for record in sink.records} == {0.5}
    assert sink.flushed


async def test_stages_are_told_in_order(world, tmp_path):
    _, sink = await run(world, tmp_path, rows("reward 1"))
    assert sink.stages[0] == "installing"
    assert sink.stages[-2:] == ["running", "summarizing"]
    assert "starting rollout" in sink.stages


async def test_what_is_done_already_does_not_run_again(world, tmp_path):
    done = {(0, 0), (2, 1)}
    _, sink = await run(world, tmp_path, rows(*["reward 1"] * 3), n=2, selected_rows=3, done=done)
    keys = {(record.row_index, record.run_index) for record in sink.records}
    assert keys == {(0, 1), (1, 0), (1, 1), (2, 0)}


async def test_nothing_left_to_do_is_a_success_without_any_start(world, tmp_path):
    outcome, _ = await run(world, tmp_path, rows("reward 1"), selected_rows=1, done={(0, 0)})
    assert outcome.status == "finished"
    assert world.lives == []


async def test_in_flight_is_the_lesser_of_batch_size_and_what_the_rollout_takes(world, tmp_path):
    world.max_concurrent = 3
    _, sink = await run(
        world, tmp_path, rows(*["sleep 0.05"] * 12), batch_size=32, selected_rows=12
    )
    assert world.most_in_flight == 3
    effective = sink.effective_values
    assert (effective["batch_size"], effective["in_flight"]) == (32, 3)
    assert effective["advertised_max_concurrent"] == 3
    assert sink.said("ConcurrencyConfig(max_concurrent=32)")


async def test_one_at_a_time_on_a_big_run_gets_a_hint(world, tmp_path):
    _, sink = await run(world, tmp_path, rows(*["reward 1"] * 25), batch_size=1, selected_rows=25)
    assert world.most_in_flight == 1
    assert sink.said("batch_size is 1")


async def test_rows_are_pulled_no_further_than_they_are_needed(world, tmp_path):
    pulled = 0

    async def endless():
        nonlocal pulled
        while True:
            pulled += 1
            yield row(pulled - 1)

    stop, sink = asyncio.Event(), MemorySink()
    sink.gate.clear()
    task = asyncio.create_task(run(world, tmp_path, endless, sink, stop=stop, batch_size=4))
    await until(lambda: len(world.started_prompts) >= 4)
    await asyncio.sleep(0.1)
    assert pulled == 4, "a sink that takes no records must hold admission back"
    sink.gate.set()
    stop.set()
    outcome, _ = await task
    assert outcome.status == "stopped"


@pytest.mark.parametrize(
    ("script", "status", "error_type", "says"),
    [
        ("reward 0.25", "success", None, None),
        ("remove", "skipped", None, None),
        ("nosample", "failed", "validation_error", "Return an AgentWorkflowOutput"),
        ("noreward", "failed", "validation_error", "ctx.set_reward"),
        ("reward -5", "failed", "validation_error", "ctx.set_reward"),
        ("fail agent_error", "failed", "agent_error", "it broke"),
        ("fail timeout", "failed", "timeout", "agent 5 s, grader 5 s"),
        ("fail validation_error", "failed", "validation_error", "it broke"),
        ("refuse", "failed", "rollout_protocol_error", "no such thing"),
        ("call limited fail agent_error", "failed", "http_error", "slow down"),
        ("call good fail agent_error", "failed", "agent_error", "it broke"),
    ],
)
async def test_each_ending_has_its_status_and_its_reason(
    world, tmp_path, script, status, error_type, says
):
    outcome, sink = await run(world, tmp_path, rows(script, "reward 1"))
    assert outcome.status == "finished"
    record = sink.by_row()[0]
    assert (record.status, record.error_type) == (status, error_type)
    assert says is None or says in record.error_message
    assert (record.reward is None) == (status != "success")
    assert sink.by_row()[1].status == "success"


async def test_a_busy_server_is_asked_again(world, tmp_path):
    _, sink = await run(world, tmp_path, rows("busy"), batch_size=1)
    assert sink.records[0].status == "success"
    assert sink.records[0].queue_ms >= 100
    assert sink.records[0].tries == 1


async def test_a_lost_lease_is_nobodys_failure(world, tmp_path):
    _, sink = await run(world, tmp_path, rows("expired"), batch_size=1)
    assert (sink.records[0].status, sink.records[0].tries) == ("success", 2)


async def test_the_record_carries_the_numbers_of_its_calls(world, tmp_path):
    _, sink = await run(world, tmp_path, rows("call good", "call unpriced", "call limited"))
    good, unpriced, limited = (sink.by_row()[index] for index in range(3))
    assert (good.tokens, good.prompt_tokens, good.completion_tokens) == (15, 10, 5)
    assert good.cost_usd == 0.01
    assert (unpriced.tokens, unpriced.cost_usd) == (15, None), "unknown is not zero"
    assert (limited.tokens, limited.cost_usd) == (None, 0.0)
    assert good.metrics == {"turns": 2.0}
    step = good.trajectory["steps"][-1]
    assert step["metrics"] == {"prompt_tokens": 10, "completion_tokens": 5, "cost_usd": 0.01}
    assert good.trajectory["final_metrics"]["total_cost_usd"] == 0.01


async def test_a_clock_that_is_set_back_in_the_middle_of_a_sample_makes_no_duration_negative(
    world, tmp_path, monkeypatch
):
    task = asyncio.create_task(run(world, tmp_path, rows("sleep 0.1")))
    await until(lambda: world.started_prompts)
    monkeypatch.setattr(wall_clock, "_ahead_s", -3600.0)
    _, sink = await task
    (record,) = sink.records
    assert 90 < record.duration_ms < 60_000
    # A float of so many seconds since 1970 is exact to a quarter of a microsecond.
    taken_s = record.finished_at - record.started_at
    assert taken_s == pytest.approx(record.duration_ms / 1000, abs=1e-6)
    assert abs(record.started_at - time.time()) < 60


async def test_a_saved_trajectory_is_taken_only_when_it_is_this_rollouts_own(world, tmp_path):
    original = world.parts

    def parts():
        made = original()
        start = made.start_rollout

        async def start_and_save(*args):
            life = await start(*args)
            perform = life.perform

            async def save(rollout_id, script, body):
                place = world.artifact_root / rollout_id
                place.mkdir(exist_ok=True)
                owner = rollout_id if "own" in script else "f" * 32
                (place / "trajectory.json").write_text(
                    json.dumps(
                        {
                            "schema_version": "ATIF-v1.7",
                            "session_id": owner,
                            "agent": {"name": "saved", "version": "1"},
                            "steps": [{"step_id": 1, "source": "agent", "message": "s3cret-value"}],
                        }
                    )
                )
                await perform(rollout_id, script, body)

            life.perform = save
            return life

        return type(made)(made.prepare_environment, start_and_save, made.make_gateway)

    world.parts = parts
    _, sink = await run(world, tmp_path, rows("own", "foreign"), secrets={"KEY": "s3cret-value"})
    own, foreign = sink.by_row()[0].trajectory, sink.by_row()[1].trajectory
    assert own["agent"]["name"] == "saved"
    assert own["steps"][0]["message"] == "[REDACTED]"
    assert foreign["agent"]["name"] != "saved"


async def test_what_rollouts_leave_on_disk_is_bounded(world, tmp_path, monkeypatch):
    monkeypatch.setattr("osmosis.evaluation.recorder.MAX_DISCARDED", 5)
    _, sink = await run(world, tmp_path, rows(*["empty"] * 23), selected_rows=23)
    assert len(sink.records) == 23
    assert len(list(world.artifact_root.iterdir())) == 3


async def test_secrets_are_taken_out_and_links_are_not_followed(world, tmp_path):
    _, sink = await run(
        world, tmp_path, rows("artifact print s3cret-value"), secrets={"KEY": "s3cret-value"}
    )
    record = sink.records[0]
    assert record.artifacts == ["note.txt"]
    assert sink.artifacts == {(record.rollout_id, "note.txt"): b"kept [REDACTED]"}
    assert "s3cret-value" not in json.dumps(record.trajectory)
    assert record.output.startswith("I print")
    assert list(world.artifact_root.iterdir()) == []
    assert sink.said("Some artifacts were left out")


async def test_a_secret_in_a_file_name_is_stored_nowhere(world, tmp_path):
    _, sink = await run(
        world, tmp_path, rows("artifact named s3cret-value"), secrets={"KEY": "s3cret-value"}
    )
    record = sink.records[0]
    assert record.artifacts == ["note.txt"]
    assert "s3cret-value" not in record.model_dump_json()
    assert "s3cret-value" not in repr(sink.details)
    assert sink.said("Some artifacts were left out")


async def test_whatever_the_engine_says_is_redacted(world, tmp_path):
    world.model_base_url = "http://s3cret-value@127.0.0.1/v1"
    _, sink = await run(
        world, tmp_path, rows("reward 1"), secrets={"URL": "s3cret-value", "PIN": "7"}
    )
    assert sink.effective_values["model"]["base_url"] == "http://[REDACTED]@127.0.0.1/v1"
    assert sink.said("PIN") and not sink.said("URL")


async def test_a_deadline_is_kept_although_the_rollout_ignores_its_cancellation(world, tmp_path):
    _, sink = await run(
        world,
        tmp_path,
        rows("deaf", "reward 1"),
        advanced=AdvancedSection(teardown_grace_s=1.5),
        agent_workflow_timeout_s=0.1,
        grader_timeout_s=0.1,
    )
    record = sink.by_row()[0]
    assert (record.status, record.error_type) == ("failed", "timeout")
    assert "agent_workflow_timeout 0.1 s, grader_timeout 0.1 s" in record.error_message
    assert sink.by_row()[1].status == "success"


async def test_a_server_that_takes_a_sample_and_never_answers_costs_that_sample_and_is_named(
    world, tmp_path
):
    scripts = ["reward 1"] * 12
    scripts[5] = "mute"
    outcome, sink = await run(
        world,
        tmp_path,
        rows(*scripts),
        batch_size=2,
        selected_rows=12,
        advanced=AdvancedSection(teardown_grace_s=1),
        agent_workflow_timeout_s=0.1,
        grader_timeout_s=0.1,
    )
    assert outcome.status == "finished"
    failed = [record for record in sink.records if record.status == "failed"]
    assert [(record.row_index, record.error_type) for record in failed] == [(5, "timeout")]
    assert failed[0].error_message.startswith("No result within 1.2 s")
    assert "did not answer POST /rollout." in failed[0].error_message
    assert failed[0].duration_ms < 5000
    assert len(sink.records) == 12


async def test_a_slot_that_is_never_given_back_costs_the_process_not_the_neighbours(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr("osmosis.evaluation.rollout_host.SLOT_CHECK_AFTER_S", 0.05)
    monkeypatch.setattr("osmosis.evaluation.rollout_host.SLOT_CHECK_INTERVAL_S", 0.05)
    scripts = ["deaf", *["sleep 0.15"] * 30]
    _, sink = await run(
        world,
        tmp_path,
        rows(*scripts),
        batch_size=2,
        advanced=AdvancedSection(teardown_grace_s=1.3),
        agent_workflow_timeout_s=0.1,
        grader_timeout_s=0.1,
    )
    assert [sink.by_row()[index].status for index in range(31)] == ["failed", *["success"] * 30]
    assert len(world.lives) == 2


async def test_a_failed_model_check_ends_the_run_before_any_row(world, tmp_path):
    world.preflight_error = RunFailed("model_not_found", "No such model.", hint="Try another.")
    world.environment_gate = asyncio.Event()
    outcome, sink = await run(world, tmp_path, rows("reward 1"))
    assert outcome.status == "failed"
    assert (outcome.error.kind, outcome.error.hint) == ("model_not_found", "Try another.")
    assert sink.records == [] and world.started_prompts == []


async def test_a_model_check_that_fails_late_stops_the_rollout_that_has_started(world, tmp_path):
    world.preflight_gate = asyncio.Event()
    world.preflight_error = RunFailed("model_key_rejected", "No.")
    task = asyncio.create_task(run(world, tmp_path, rows("reward 1")))
    await until(lambda: world.lives)
    world.preflight_gate.set()
    outcome, _ = await task
    assert outcome.error.kind == "model_key_rejected"
    assert world.lives[0].stopped


@pytest.mark.parametrize("part", ["environment_error", "start_error"])
async def test_what_cannot_be_built_or_started_fails_the_run(world, tmp_path, part):
    setattr(world, part, RunFailed("dependencies_failed", "uv says no: s3cret-value"))
    outcome, _ = await run(world, tmp_path, rows("reward 1"), secrets={"K": "s3cret-value"})
    assert outcome.error.message == "uv says no: [REDACTED]"


@pytest.mark.parametrize("sign", ["dialect_c", "c_schema"])
async def test_the_older_dialect_is_refused_by_name_of_the_version_to_require(
    world, tmp_path, sign
):
    setattr(world, sign, True)
    outcome, sink = await run(world, tmp_path, rows("reward 1", "reward 1"))
    assert outcome.error.kind == "rollout_protocol_unsupported"
    assert "osmosis-ai[server]>=0.3.3" in outcome.error.hint
    assert sink.records == []


async def test_an_unreadable_row_ends_the_run_with_its_reason(world, tmp_path):
    async def broken():
        yield row(0)
        raise RunFailed("x", "row 2 of data.jsonl is no object")

    outcome, _ = await run(world, tmp_path, broken)
    assert outcome.error.kind == "dataset_unreadable"
    assert "row 2" in outcome.error.message


async def test_sixty_four_at_once_overlap(world, tmp_path):
    world.max_concurrent = None
    began = time.monotonic()
    _, sink = await run(
        world, tmp_path, rows(*["sleep 0.2"] * 128), batch_size=64, selected_rows=128
    )
    assert len(sink.records) == 128
    assert world.most_in_flight > 50
    assert time.monotonic() - began < 5


async def test_the_lanes_of_a_wide_run_begin_a_few_in_a_turn_of_the_loop(world, tmp_path):
    world.max_concurrent = None
    turn, begun = 0, Counter()

    async def count_turns():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def note(_):
        begun[turn] += 1

    world.on_upstream = note
    counting = asyncio.create_task(count_turns())
    _, sink = await run(
        world, tmp_path, rows(*["reward 1"] * 200), batch_size=200, selected_rows=200
    )
    counting.cancel()
    assert len(sink.records) == 200
    assert max(begun.values()) <= 2 * LANES_A_TURN


async def test_an_export_that_hangs_holds_no_slot_and_ends_in_time(world, tmp_path):
    sink = MemorySink()
    sink.artifact_gate.clear()
    scripts = ["artifact", *["reward 1"] * 20]
    options = {"batch_size": 1, "advanced": AdvancedSection(export_timeout_s=1)}
    task = asyncio.create_task(
        run(world, tmp_path, rows(*scripts), sink, selected_rows=21, **options)
    )
    await until(lambda: len(sink.records) == 20)
    assert 0 not in sink.by_row(), "the others went on while the export hung"
    outcome, _ = await task
    assert outcome.status == "finished"
    record = sink.by_row()[0]
    assert (record.status, record.artifacts) == ("success", [])
    assert any("did not end within 1 s" in str(details) for details in sink.details)


async def test_a_stop_gives_an_export_a_moment_and_no_more(world, tmp_path, monkeypatch):
    monkeypatch.setattr("osmosis.evaluation.engine.STOP_GRACE_S", 0.1)
    sink, stop = MemorySink(), asyncio.Event()
    sink.artifact_gate.clear()
    task = asyncio.create_task(
        run(world, tmp_path, rows("artifact", "sleep 30"), sink, stop=stop, batch_size=1)
    )
    await until(lambda: len(world.started_prompts) == 2)
    stop.set()
    async with asyncio.timeout(5):
        outcome, _ = await task
    assert outcome.status == "stopped"


async def test_one_of_many_that_never_answers_costs_its_own_sample_only(world, tmp_path):
    scripts = ["reward 1"] * 200
    scripts[57] = "deaf"
    outcome, sink = await run(
        world,
        tmp_path,
        rows(*scripts),
        selected_rows=200,
        advanced=AdvancedSection(teardown_grace_s=1),
        agent_workflow_timeout_s=0.5,
        grader_timeout_s=0.5,
    )
    assert outcome.status == "finished"
    assert [r.row_index for r in sink.records if r.error_type == "timeout"] == [57]
    assert sum(record.status == "success" for record in sink.records) == 199
