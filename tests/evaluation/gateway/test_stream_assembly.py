from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osmosis.evaluation.gateway.stream_assembly import completion_of

TEXTS = st.lists(st.one_of(st.text(), st.sampled_from(['"', "\\", '\\"', '"}', "\n", "é", "🙂"])))


def payload(delta: dict[str, Any], *, ascii: bool = True, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": more.pop("finish_reason", None)}
    chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return json.dumps({**chunk, **more}, ensure_ascii=ascii).encode()


def content(payloads: list[bytes]) -> str:
    body = completion_of([*payloads, payload({}, finish_reason="stop"), b"[DONE]"])
    assert body is not None
    return body["choices"][0]["message"]["content"]


@given(texts=TEXTS, ascii=st.booleans(), with_role=st.booleans())
def test_pieces_of_text_follow_each_other_whatever_is_in_them(texts, ascii, with_role):
    role = {"role": "assistant"} if with_role else {}
    pieces = [payload({**role, "content": text}, ascii=ascii) for text in texts]
    assert content(pieces) == "".join(texts)


@given(texts=TEXTS)
def test_what_stands_between_pieces_of_text_keeps_its_place(texts):
    pieces: list[bytes] = []
    for number, text in enumerate(texts):
        pieces += [payload({"content": text}), payload({"reasoning_content": str(number)})]
        pieces += [
            payload({"content": text, "refusal": text}),
            payload({"content": text}, usage={}),
        ]
    body = completion_of([*pieces, payload({}, finish_reason="stop")])
    message = body["choices"][0]["message"]
    assert message["content"] == "".join(text * 3 for text in texts)
    assert message.get("reasoning_content", "") == "".join(map(str, range(len(texts))))
    assert message.get("refusal", "") == "".join(texts)


def test_what_differs_beside_the_text_is_all_told():
    pieces = [payload({"content": "a"}, created=1), payload({"content": "b"}, created=2)]
    body = completion_of([*pieces, payload({"content": "c"}, created=3, finish_reason="length")])
    assert body["created"] == 3
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["message"]["content"] == "abc"


def test_a_key_of_that_name_inside_a_text_is_text():
    told = '{"delta": {"content": "no"}}'
    assert content([payload({"content": told}), payload({"content": "yes"})]) == told + "yes"


@pytest.mark.parametrize(
    "torn", [b'{"choices":[{"delta":{"content":"}}]}', b'{"delta":{"content":']
)
def test_a_chunk_that_is_torn_makes_no_answer(torn):
    whole = b'{"choices":[{"delta":{"content":"a"}}]}'
    end = payload({}, finish_reason="stop")
    assert completion_of([whole, torn, end]) is None
    assert completion_of([whole, whole, end])["choices"][0]["message"]["content"] == "aa"
