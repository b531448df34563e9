"""A budget that could not be kept is refused before the first row."""

from __future__ import annotations

import pytest

from osmosis.evaluation.budget import Budget
from osmosis.wire.errors import RunFailed
from osmosis.wire.runner import ModelEndpoint
from osmosis.workspace.advanced import AdvancedSection
from tests.evaluation.gateway.upstream import completion, make_plan, says

WITHOUT_COUNTS = {key: value for key, value in completion().items() if key != "usage"}


async def test_a_cost_budget_without_a_known_price_is_refused_before_anything_is_sent(
    make_bench, upstream, tmp_path
):
    endpoint = ModelEndpoint(name="box", base_url=upstream.base_url, model="m")
    advanced = {"max_cost_usd": 1.0}
    plan = make_plan(tmp_path, "box", advanced=advanced, endpoints=(endpoint,))
    bench = await make_bench(plan=plan)
    with pytest.raises(RunFailed) as failed:
        await bench.gateway.preflight()
    assert failed.value.kind == "budget_not_measurable"
    assert "no price is known for 'box'" in failed.value.message
    assert "max_total_tokens" in failed.value.hint
    assert upstream.hits == 0


@pytest.mark.parametrize("limit", [{"max_total_tokens": 10}, {}])
async def test_a_token_budget_needs_a_provider_that_counts(make_bench, upstream, limit):
    upstream.answers = [says(WITHOUT_COUNTS)]
    bench = await make_bench(advanced=limit)
    if not limit:
        await bench.gateway.preflight()
        return
    with pytest.raises(RunFailed) as failed:
        await bench.gateway.preflight()
    assert failed.value.kind == "budget_not_measurable"
    assert "reports no token counts" in failed.value.message


async def test_a_scripted_model_costs_nothing_and_needs_no_price(make_bench, tmp_path):
    (tmp_path / "m.toml").write_text('[[rules]]\nreply = "hi"\n')
    advanced = {"max_cost_usd": 1.0, "max_total_tokens": 5}
    bench = await make_bench("scripted/m.toml", advanced=advanced)
    await bench.gateway.preflight()


async def test_every_call_counts_when_it_ends_policy_and_judge(make_bench, upstream):
    advanced = {"judge_model": "openai/judge", "max_total_tokens": 40}
    bench = await make_bench(advanced=advanced)
    budget = Budget(AdvancedSection(**advanced))
    bench.gateway.on_call = budget.add
    bench.session = bench.gateway.open_session("1" * 32)
    for judge in (False, True, False):
        await bench.post(judge=judge)
    assert budget.spent.tokens == 30
    assert not budget.is_spent
    await bench.post(judge=True)
    assert budget.key == "max_total_tokens"
