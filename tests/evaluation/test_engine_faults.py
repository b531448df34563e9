"""Faults that samples share: the run is halted, nobody is blamed, and nothing is lost."""

from __future__ import annotations

import pytest

from osmosis.wire.errors import RunFailed
from osmosis.workspace.advanced import AdvancedSection
from tests.evaluation.engine_fakes import rows
from tests.evaluation.test_engine import run

REJECTED = RunFailed("model_key_rejected", "The key is not accepted.", hint="Renew it.")
GONE = RunFailed("model_unreachable", "Nobody answers.", hint="Start it.")


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("osmosis.evaluation.fault_response.FIRST_WAIT_S", 0.01)


async def test_a_key_rejected_in_the_middle_halts_the_run_and_fails_no_sample(world, tmp_path):
    world.faults = [REJECTED]
    scripts = [*["call good"] * 3, *["call rejected fail agent_error"] * 30]
    # One at a time: a success that ends after a refusal would show that the key is good.
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=1, selected_rows=33)
    assert (outcome.status, outcome.error.kind) == ("failed", "model_key_rejected")
    assert "Renew it." in outcome.error.hint and "pending" in outcome.error.hint
    assert {record.status for record in sink.records} == {"success"}
    assert len(sink.records) == 3
    assert len(world.started_prompts) < 12, "nothing more is dispatched"
    assert world.probes == [("policy", "auth")]


async def test_what_is_in_flight_when_the_run_is_halted_is_finished_and_kept(world, tmp_path):
    world.faults = [REJECTED]
    scripts = ["sleep 0.5 reward 0.25", *["call rejected fail http_error"] * 20]
    _, sink = await run(world, tmp_path, rows(*scripts), batch_size=4, selected_rows=21)
    assert [(record.row_index, record.reward) for record in sink.records] == [(0, 0.25)]


@pytest.mark.parametrize("good", ["call good", "call kept"])
async def test_an_answer_to_a_call_made_before_the_first_refusal_proves_nothing(
    world, tmp_path, good
):
    """Nor does one that was kept from an earlier run: neither had to do with the key of now."""
    world.faults = [REJECTED]
    scripts = [
        *[f"{good} sleep 0.2"] * 3,
        *["call rejected sleep 0.08 fail agent_error"] * 3,
        *([f"{good} sleep 0.01"] if good == "call kept" else []),
        *["call rejected sleep 0.08 fail agent_error"] * 30,
    ]
    outcome, sink = await run(
        world, tmp_path, rows(*scripts), batch_size=4, selected_rows=len(scripts)
    )
    assert outcome.error.kind == "model_key_rejected"
    assert {record.status for record in sink.records} == {"success"}


async def test_refusals_of_single_samples_are_their_own(world, tmp_path):
    """As a moderation by HTTP 403: the model itself answers when it is asked."""
    scripts = ["call rejected fail agent_error"] * 12
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=2, selected_rows=12)
    assert outcome.status == "finished"
    assert {(r.error_type, r.error_kind) for r in sink.records} == {("http_error", "auth")}
    assert len(sink.records) == 12
    assert len(world.probes) <= 3, "each false alarm makes the next one need more"


async def test_a_few_refusals_at_the_end_are_looked_into_before_they_are_blamed(world, tmp_path):
    world.faults = [REJECTED]
    scripts = ["call good", "call rejected fail agent_error", "call rejected fail agent_error"]
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=1, selected_rows=3)
    assert outcome.error.kind == "model_key_rejected"
    assert [record.row_index for record in sink.records] == [0]


async def test_refusals_with_success_between_them_raise_no_alarm(world, tmp_path):
    scripts = ["call rejected fail agent_error", "call good"] * 10
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=1, selected_rows=20)
    assert outcome.status == "finished" and world.probes == []
    assert sum(record.status == "failed" for record in sink.records) == 10


async def test_an_outage_is_waited_out_and_costs_no_sample_anything(world, tmp_path):
    world.faults = [GONE, GONE]
    scripts = ["call unreachable_once fail agent_error"] * 12
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=6, selected_rows=12)
    assert outcome.status == "finished"
    assert {record.status for record in sink.records} == {"success"}
    assert len(sink.records) == 12
    again = [record for record in sink.records if record.interruptions]
    assert again and all(record.tries == 1 for record in sink.records)
    assert sink.said("No new sample starts") and sink.said("answers again")


async def test_a_model_that_is_gone_for_good_halts_the_run(world, tmp_path):
    world.faults = [GONE] * 1000
    scripts = ["call unreachable fail agent_error"] * 40
    options = {"batch_size": 4, "advanced": AdvancedSection(outage_wait_s=0.2)}
    outcome, sink = await run(world, tmp_path, rows(*scripts), selected_rows=40, **options)
    assert outcome.error.kind == "model_unreachable"
    assert sink.records == []
    assert len(world.started_prompts) < 12


async def test_a_judge_whose_quota_is_spent_halts_the_run_too(world, tmp_path):
    world.faults = [RunFailed("model_quota_exhausted", "No credit.", hint="Add credit.")]
    scripts = ["call spent graded fail agent_error"] * 20
    outcome, sink = await run(world, tmp_path, rows(*scripts), batch_size=2, selected_rows=20)
    assert outcome.error.kind == "model_quota_exhausted"
    assert "judge" in outcome.error.message
    assert sink.records == []
