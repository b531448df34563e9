from __future__ import annotations

import asyncio
import textwrap

import orjson
import pytest

from osmosis.wire.errors import RunFailed
from tests.evaluation.gateway.upstream import HELLO

MULTIPLY = r"""
seed = 7
mistake_rate = 0.3

[[rules]]
match = 'What is (?P<a>-?\d+) x (?P<b>-?\d+)'
reply = "#### {{ a * b }}"
mistake = "#### {{ a * b + random(1, 9) }}"

[[rules]]
reply = "I can only multiply."
"""

CALCULATOR = r"""
[[rules]]
match = '(?P<a>\d+) plus (?P<b>\d+)'
turn = 0

[[rules.tool_calls]]
name = "add"
arguments = { a = "{{ a }}", b = "{{ b }}", note = "sum of {{ a }}" }

[[rules]]
after_tool = "add"
reply = "The sum is {{ tool_result }}."
"""
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


@pytest.fixture
def make_scripted(make_bench, tmp_path):
    async def make(text, *, name="models/m.toml", **more):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return await make_bench(f"scripted/{name}", **more)

    return make


async def ask(bench, text, **more):
    status, body, _ = await bench.post({"messages": [{"role": "user", "content": text}]}, **more)
    assert status == 200, body
    return body["choices"][0]["message"]["content"]


async def problem(bench) -> str:
    with pytest.raises(RunFailed) as caught:
        await bench.gateway.preflight()
    return f"{caught.value.kind}: {caught.value.message}"


async def test_rules_answer_and_calls_are_labelled_as_scripted(make_scripted):
    bench = await make_scripted(MULTIPLY.replace("0.3", "0.0"))
    await bench.gateway.preflight()
    assert await ask(bench, "What is 12 x -3?") == "#### -36"
    assert await ask(bench, "hello") == "I can only multiply."
    call = bench.session.calls[0]
    assert (call.scripted, call.cost_usd, call.finish_reason) == (True, 0.0, "stop")
    assert (call.prompt_tokens, call.completion_tokens) == (5, 2)
    described = bench.gateway.describe()
    assert described["scripted"] is True
    assert described["provider"] == "scripted"


async def test_mistakes_are_seeded_and_do_not_depend_on_the_order_of_calls(make_scripted):
    questions = [f"What is {i} x 7?" for i in range(60)]
    first = await make_scripted(MULTIPLY)
    one = [await ask(first, question) for question in questions]
    second = await make_scripted(MULTIPLY)
    two = await asyncio.gather(*(ask(second, question) for question in reversed(questions)))
    assert one == two[::-1]
    wrong = sum(answer != f"#### {i * 7}" for i, answer in enumerate(one))
    assert 8 <= wrong <= 30
    third = await make_scripted(MULTIPLY.replace("seed = 7", "seed = 8"))
    assert one != [await ask(third, question) for question in questions]


async def test_the_same_question_asked_again_gets_a_fresh_chance(make_scripted):
    bench = await make_scripted(MULTIPLY)
    answers = {await ask(bench, "What is 3 x 7?") for _ in range(40)}
    assert len(answers) > 1


async def test_a_tool_is_called_with_typed_arguments_and_its_result_used(make_scripted):
    bench = await make_scripted(CALCULATOR)
    asked = [{"role": "user", "content": "2 plus 40"}]
    _, body, _ = await bench.post({"messages": asked, "tools": [ADD]})
    message = body["choices"][0]["message"]
    assert message["content"] == ""
    assert body["choices"][0]["finish_reason"] == "tool_calls"
    (call,) = message["tool_calls"]
    assert orjson.loads(call["function"]["arguments"]) == {"a": 2, "b": 40, "note": "sum of 2"}
    message.pop("content")
    result = {"role": "tool", "tool_call_id": call["id"], "content": "42"}
    _, body, _ = await bench.post({"messages": [*asked, message, result], "tools": [ADD]})
    assert body["choices"][0]["message"]["content"] == "The sum is 42."


async def test_a_tool_that_was_not_offered_or_not_called_is_refused(make_scripted):
    bench = await make_scripted(CALCULATOR)
    asked = [{"role": "user", "content": "2 plus 40"}]
    status, body, _ = await bench.post({"messages": asked})
    assert status == 400
    assert "rules[0] calls the tool 'add'" in body["detail"]
    assert "models/m.toml" in body["detail"]
    stray = {"role": "tool", "tool_call_id": "nope", "content": "1"}
    status, body, _ = await bench.post({"messages": [*asked, stray], "tools": [ADD]})
    assert status == 400
    assert "tool_call_id" in body["detail"]


async def test_json_of_a_tool_can_be_read(make_scripted):
    bench = await make_scripted(
        """
        [[rules]]
        after_tool = "add"
        reply = "{{ tool_result['sum'] / 4 }} or {{ tool_result['all'][1] }}"
        [[rules]]
        tool_calls = [{ name = "add" }]
        """
    )
    _, body, _ = await bench.post({"messages": HELLO, "tools": [ADD]})
    message = body["choices"][0]["message"]
    call = message["tool_calls"][0]
    text = '{"sum": 42, "all": [1, 2.50]}'
    result = {"role": "tool", "tool_call_id": call["id"], "content": text}
    _, body, _ = await bench.post({"messages": [*HELLO, message, result], "tools": [ADD]})
    assert body["choices"][0]["message"]["content"] == "10.5 or 2.5"


async def test_a_streaming_client_gets_the_same_words_in_chunks(make_scripted):
    bench = await make_scripted('[[rules]]\nreply = "one two  three"\n')
    _, raw, _ = await bench.post({"stream": True})
    lines = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    chunks = [orjson.loads(line) for line in lines[:-1]]
    texts = [c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]]
    assert "".join(texts) == "one two  three"
    assert len([text for text in texts if text]) == 3
    assert chunks[-1]["usage"]["completion_tokens"] == 3
    assert bench.session.calls[0].streamed


async def test_scripted_errors_go_through_the_retry_layer(make_scripted):
    bench = await make_scripted(
        """
        [[rules]]
        match = "flaky"
        reply = "at last"
        error = { status = 503, message = "busy", times = 2 }
        [[rules]]
        error = { status = 418, message = "never" }
        """
    )
    assert await ask(bench, "flaky") == "at last"
    assert bench.session.calls[0].upstream_requests == 3
    status, body, _ = await bench.post()
    assert (status, body["detail"]) == (418, "never")


async def test_random_errors_have_their_rate_and_status(make_scripted):
    text = 'error_rate = 0.5\nerror_status = 500\n[[rules]]\nreply = "ok"\n'
    bench = await make_scripted(text, advanced={"max_retries": 0})
    statuses = [(await bench.post({"user": str(i)}))[0] for i in range(40)]
    assert 8 <= statuses.count(502) <= 32


async def test_latency_is_kept(make_scripted):
    bench = await make_scripted('latency_ms = 1\n[[rules]]\nreply = "x"\nlatency_ms = 60\n')
    await ask(bench, "hi")
    assert bench.session.calls[0].latency_s >= 0.06


async def test_judge_rules_answer_the_judge_only(make_scripted):
    text = '[[rules]]\nroute = "judge"\nreply = "fine"\n[[rules]]\nreply = "policy"\n'
    advanced = {"judge_model": "scripted/models/m.toml"}
    bench = await make_scripted(text, advanced=advanced)
    await bench.gateway.preflight()
    assert await ask(bench, "hi") == "policy"
    assert await ask(bench, "hi", judge=True) == "fine"


async def test_max_tokens_cuts_the_answer(make_scripted):
    bench = await make_scripted('[[rules]]\nreply = "one two three"\n')
    _, body, _ = await bench.post({"max_tokens": 2})
    assert body["choices"][0]["message"]["content"] == "one two"
    assert body["choices"][0]["finish_reason"] == "length"


async def test_a_message_without_a_rule_says_so(make_scripted):
    bench = await make_scripted('[[rules]]\nmatch = "x"\nreply = "y"\n')
    status, body, _ = await bench.post({"messages": HELLO})
    assert status == 400
    assert "no rule answers 'hello'" in body["detail"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rulez = []\n", "rulez: unknown key. Did you mean 'rules'?"),
        ('[[rules]]\nrepply = "x"\n', "rules[0].repply: unknown key. Did you mean 'reply'?"),
        ("[[rules]]\nerror = { state = 1 }\n", "rules[0].error.state: unknown key"),
        ("[[rules]]\nturn = 0\n", "rules[0]: needs 'reply', 'tool_calls' or 'error'"),
        ('[[rules]]\nmatch = "("\nreply = "x"\n', "rules[0].match: not a regular expression"),
        ('[[rules]]\nreply = "{{ 1 + }}"\n', "rules[0].reply: '{{ 1 + }}' is not an expression"),
        ('[[rules]]\nreply = "{{ a.b }}"\n', "rules[0].reply"),
        ('[[rules]]\nreply = "{{ turm }}"\n', "Did you mean 'turn'?"),
        ("error_rate = 2\nrules = []\n", "error_rate: "),
        ('[[rules]]\nreply = "x"\nturn = "x"\n', "rules[0].turn: "),
        ("[[rules\n", "models/m.toml: "),
        ('[[rules]]\nmistake = "x"\ntool_calls = [{ name = "a" }]\n', "rules[0].mistake: needs"),
    ],
)
async def test_mistakes_in_the_file_end_the_run_with_file_and_key(make_scripted, text, said):
    message = await problem(await make_scripted(text))
    assert message.startswith("model_refused: ")
    assert "models/m.toml" in message
    assert said in message


@pytest.mark.parametrize("path", ["scripted/../out.toml", "scripted//etc/passwd", "scripted/"])
async def test_a_file_outside_the_workspace_is_refused(make_bench, path):
    assert (await problem(await make_bench(path))).startswith("model_name_invalid")


async def test_a_link_out_of_the_workspace_is_refused(make_bench, tmp_path):
    outside = tmp_path.parent / f"{tmp_path.name}-outside.toml"
    outside.write_text('[[rules]]\nreply = "x"\n')
    (tmp_path / "link.toml").symlink_to(outside)
    assert (await problem(await make_bench("scripted/link.toml"))).startswith("model_name_invalid")


async def test_a_missing_file_is_named(make_bench):
    message = await problem(await make_bench("scripted/none.toml"))
    assert message.startswith("model_not_found: ")
    assert "none.toml" in message
