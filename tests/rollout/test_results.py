from __future__ import annotations

import json

import pytest

from osmosis.rollout.json_values import deep_copy, json_safe
from tests.rollout.driver import reward_one


class Scalar:
    """A number as numpy has them."""

    def __init__(self, value):
        self.value = value

    def item(self):
        return self.value


def test_what_json_cannot_say_is_dropped_and_the_rest_survives():
    given = {
        "nan": float("nan"),
        "object": object(),
        "scalar": Scalar(3),
        "bad scalar": Scalar([1]),
        4: "number as key",
        (1, 2): "no key",
        "nested": {"inf": float("inf"), "tuple": (1, float("nan"))},
        "text": "a\ud800b",
    }
    assert json_safe(given) == {
        "scalar": 3,
        "4": "number as key",
        "nested": {"tuple": [1]},
        "text": "a\ufffdb",
    }


def test_a_deep_copy_shares_nothing():
    inner = [1]
    copied = deep_copy({"a": [{"b": inner}], "t": (inner,)})
    inner.append(2)
    assert copied == {"a": [{"b": [1]}], "t": ([1],)}


async def sample_of(serve, messages, grade=reward_one):
    async def run(ctx):
        return messages

    body = await serve(run, grade).run()
    assert body["status"] == "success", body
    return body["sample"]


async def test_messages_that_are_no_json_cost_the_messages_but_not_the_reward(serve):
    sample = await sample_of(serve, [{"role": "assistant", "content": object()}])
    assert (sample["messages"], sample["reward"], sample["label"]) == ([], 1.0, "L")


@pytest.mark.parametrize("value", [2**80, "\U0001f600", 1.5, None, {"1": [True]}])
async def test_messages_arrive_as_they_were(serve, value):
    [message] = (await sample_of(serve, [{"role": "assistant", "content": value}]))["messages"]
    assert message["content"] == value


async def test_metrics_and_extra_fields_are_made_fit_for_json(serve):
    async def grade(ctx):
        ctx.sample.metrics.update({"n": float("inf"), 3: 4, "s": Scalar(0.5)})
        ctx.sample.extra_fields["o"] = object()
        ctx.set_reward(1)

    sample = await sample_of(serve, [{"role": "assistant", "content": "a"}], grade)
    assert sample["metrics"] == {"3": 4, "s": 0.5}
    assert sample["extra_fields"] == {}
    json.dumps(sample, allow_nan=False)
