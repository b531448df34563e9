from __future__ import annotations

from typing import Any

from osmosis.evaluation.gateway.chat import ChatRequest
from osmosis.evaluation.gateway.fingerprint import Fingerprint, fingerprint_of
from osmosis.evaluation.redaction import Redactor
from osmosis.workspace.advanced import AdvancedSection

SECRET = "sk-canary-4711"
NOBODY = Redactor([])
HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]


def taken(body: dict[str, Any], *, redactor: Redactor = NOBODY, **more: Any) -> Fingerprint:
    chat = ChatRequest({"messages": HELLO, **body}, "name", stream=False, route="policy")
    for name, value in more.items():
        setattr(chat, name, value)
    return fingerprint_of(chat, redactor)


def test_the_order_of_keys_the_clients_name_for_the_model_and_the_way_of_the_answer_do_not_count():
    plain = taken({"temperature": 0.5, "tools": [{"type": "function", "function": {"name": "f"}}]})
    turned = taken(
        {
            "tools": [{"function": {"name": "f"}, "type": "function"}],
            "temperature": 0.5,
            "model": "another",
            "stream": True,
            "stream_options": {"include_usage": True},
            "user": "rollout-1",
            "metadata": {"id": "7"},
            "stop": None,
            "messages": [{"content": m["content"], "role": m["role"]} for m in HELLO],
        }
    )
    assert plain.digest == turned.digest
    assert plain.fields == turned.fields


def test_every_field_that_can_change_an_answer_counts():
    first = taken({})
    for change in (
        {"temperature": 0.5},
        {"seed": 1},
        {"tools": []},
        {"response_format": {"type": "json_object"}},
        {"messages": HELLO[:1]},
        {"messages": [HELLO[0], {**HELLO[1], "content": "hello!"}]},
        {"messages": [HELLO[0], {**HELLO[1], "role": "assistant"}]},
        {"messages": [HELLO[0], {**HELLO[1], "name": "ada"}]},
        {"an_unknown_field": 1},
    ):
        assert taken(change).digest != first.digest, change
    assert taken({}, route="judge").digest != first.digest
    assert taken({}, thinking={"type": "enabled"}).digest != first.digest


def test_a_default_of_the_run_counts_as_if_the_client_had_set_it():
    chat = ChatRequest({"messages": HELLO}, "name", stream=False, route="policy")
    chat.apply_defaults(AdvancedSection(temperature=0.5, max_tokens=9))
    told = taken({"temperature": 0.5, "max_tokens": 9})
    assert fingerprint_of(chat, NOBODY).digest == told.digest


def test_a_secret_value_leaves_no_trace_and_is_noticed():
    redactor = Redactor([SECRET])
    messages = [*HELLO, {"role": "user", "content": f"{'x' * 110} my key is {SECRET}"}]
    seen = taken({"messages": messages, "stop": [SECRET]}, redactor=redactor)
    assert seen.secret
    assert SECRET[:6] not in str(seen)
    other = [*HELLO, {"role": "user", "content": f"{'x' * 110} my key is [REDACTED]"}]
    again = taken({"messages": other, "stop": ["[REDACTED]"]}, redactor=redactor)
    assert seen.digest == again.digest
    assert not again.secret


def test_text_that_is_no_unicode_and_numbers_without_end_have_a_fingerprint():
    odd = [{"role": "user", "content": "\ud800 " + "9" * 30}]
    assert taken({"messages": odd, "big": 10**40}).digest != taken({"messages": odd}).digest
