"""Each request to a provider is counted before it leaves, so that a kill cannot hide one."""

from __future__ import annotations

from lab.ports import free_port
from tests.evaluation.gateway.upstream import completion, fails, says


async def test_every_attempt_is_counted_also_streamed_ones_and_retries(make_bench, upstream):
    counted: list[int] = []
    bench = await make_bench(on_upstream=counted.append)
    upstream.answers = [fails(503), says(completion())]
    assert (await bench.post())[0] == 200
    assert (await bench.post(stream=True))[0] == 200
    assert sum(counted) == upstream.hits == 3
    assert sum(call.upstream_requests for call in bench.session.calls) == 3


async def test_what_never_reached_the_provider_is_taken_back(make_bench):
    counted: list[int] = []
    address = f"http://127.0.0.1:{free_port()}/v1"
    env = {"OPENAI_BASE_URL": address}
    bench = await make_bench(on_upstream=counted.append, env=env, advanced={"max_retries": 0})
    assert (await bench.post())[0] >= 500
    assert counted == [1, -1]


async def test_scripted_answers_are_not_counted(make_bench, tmp_path):
    script = tmp_path / "models" / "m.toml"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text('[[rules]]\nreply = "fine"\n')
    counted: list[int] = []
    bench = await make_bench("scripted/models/m.toml", on_upstream=counted.append)
    assert (await bench.post())[0] == 200
    assert counted == []
