"""Adapter 1: an OpenAI-compatible endpoint, by byte pass-through on one aiohttp session.

A request is parsed once (by the gateway) and sent with its model changed; a streamed answer is
passed on as it comes. There is no read deadline here: the sample's own deadline is the one owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from io import BytesIO
from time import monotonic

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from osmosis.evaluation.gateway.chat import ChatRequest, Reply
from osmosis.evaluation.gateway.event_stream import EventStream
from osmosis.evaluation.gateway.failures import UpstreamFailure, failure_of_answer
from osmosis.evaluation.gateway.json_codec import dumps, loads
from osmosis.evaluation.gateway.link import LinkFailures, socket_with_keepalive
from osmosis.evaluation.gateway.stream_relay import StreamRelay
from osmosis.evaluation.gateway.synthetic_stream import tell
from osmosis.wire.errors import RunFailed, did_you_mean

CONNECT_TIMEOUT_S = 10.0
MODELS_TIMEOUT_S = 10.0
IDLE_CONNECTION_S = 4.0
"""Below the 5 s after which uvicorn servers close an idle connection: none is reused too late."""
IN_ONE_PIECE_BYTES = 1024 * 1024
MAX_REPLY_BYTES = 64 * 1024 * 1024
MODELS_SHOWN = 8
BURST_S = 0.002
"""Pieces that follow each other faster are passed on together, so long after the one before. A
piece costs a turn of this loop and one of the client's, however small it is."""
HEADERS = {
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "osmosis-platform",
}


class OpenAICompatible:
    """One model behind one base URL. ``model`` None: ask the endpoint which one it serves."""

    scripted = False

    def __init__(
        self,
        *,
        provider: str,
        path: str,
        base_url: str,
        model: str | None,
        api_key: str | None,
        price_name: str | None = None,
        stream_options: bool = True,
    ) -> None:
        self.provider = provider
        self.path = path
        url = URL(base_url)
        self.base_url = str(url.with_user(None)).rstrip("/")
        self.model = model
        self.price_name = price_name
        self.limiter_key = (self.base_url, api_key or "")
        self.renames_max_tokens = False
        """Set by the pre-flight when the endpoint only knows ``max_completion_tokens``."""
        self._url = URL(base_url.rstrip("/") + "/chat/completions")
        self._root = URL(base_url.rstrip("/"))
        self._stream_options = stream_options
        self._headers = CIMultiDict(HEADERS)
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._session: aiohttp.ClientSession | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        return (self.provider, str(URL(self.base_url).with_query(None)), self.model or "")

    async def prepare(self) -> None:
        if self.model is None:
            self.model = await self._only_model()

    async def complete(self, chat: ChatRequest) -> Reply:
        async with self._post(self._payload(chat)) as response:
            body = await _read(response)
        try:
            parsed = loads(body)
        except ValueError:
            raise _not_json(response, body) from None
        return Reply.of_completion(parsed, chat.requested_model)

    async def stream(self, chat: ChatRequest, out: EventStream) -> Reply:
        relay = StreamRelay(chat.requested_model)
        async with self._post(self._payload(chat)) as response:
            if "event-stream" not in response.headers.get("Content-Type", ""):
                return await self._whole_answer(response, chat, out)
            await out.commit()
            heard_at = 0.0
            try:
                async for data in response.content.iter_any():
                    lines = relay.feed(data)
                    if lines:
                        await out.send(lines)
                    if relay.failure is not None:
                        raise relay.failure
                    if monotonic() - heard_at < BURST_S and not relay.done:
                        await asyncio.sleep(BURST_S)
                    heard_at = monotonic()
            except aiohttp.ClientError as error:
                # Too late for another attempt: the client has part of this one.
                text = f"The provider broke off the stream: {error or type(error).__name__}"
                raise UpstreamFailure("connection", text) from error
        rest = relay.end()
        if rest:
            await out.send(rest)
        if relay.failure is not None:
            raise relay.failure
        return Reply(relay.usage, relay.finish_reason, relay.message(), relay.completion())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def list_models(self, root: URL | None = None) -> list[str]:
        """The model ids that ``GET {base}/models`` reports; raises UpstreamFailure."""
        url = URL(f"{root or self._root}/models")
        timeout = aiohttp.ClientTimeout(total=MODELS_TIMEOUT_S)
        with LinkFailures(url):
            async with self._opened().get(
                url, headers=self._headers, timeout=timeout, allow_redirects=False
            ) as response:
                body = await _read(response)
        if response.status != 200:
            raise failure_of_answer(response.status, response.headers, body)
        try:
            listed = loads(body)["data"]
            return [item["id"] for item in listed if isinstance(item.get("id"), str)]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise _not_json(response, body) from None

    async def serves_at_v1(self) -> bool:
        """Whether the base URL merely lacks its ``/v1``."""
        if self._root.path.rstrip("/").endswith("/v1"):
            return False
        try:
            await self.list_models(URL(f"{self._root}/v1"))
        except UpstreamFailure as failure:
            return failure.kind == "auth"
        return True

    async def _only_model(self) -> str:
        remedy = "Register the endpoint with --model ID, or write NAME/model-id as model_path."
        try:
            models = await self.list_models()
        except UpstreamFailure as failure:
            if failure.status is None:
                raise RunFailed(
                    "model_unreachable",
                    f"The endpoint '{self.provider}' at {self.base_url} does not answer: "
                    f"{failure.message}",
                    hint="Start the model server, or correct the endpoint's base URL.",
                ) from None
            kind = "model_key_rejected" if failure.kind == "auth" else "model_wrong_endpoint"
            raise RunFailed(
                kind,
                f"The endpoint '{self.provider}' at {self.base_url} does not list its models: "
                f"{failure.message}",
                hint=remedy,
            ) from None
        if len(models) != 1:
            shown = ", ".join(models[:MODELS_SHOWN]) + (", …" if len(models) > MODELS_SHOWN else "")
            raise RunFailed(
                "model_name_invalid",
                f"The endpoint '{self.provider}' serves {len(models)} models"
                + (f" ({shown})" if models else "")
                + "; the run must say which one.",
                hint=remedy,
            )
        return models[0]

    async def near_models(self) -> str:
        """A sentence that names what the endpoint does serve, or nothing."""
        try:
            models = await self.list_models()
        except UpstreamFailure:
            return ""
        if not models:
            return ""
        suggestion = did_you_mean(self.model or "", models)
        if len(models) > MODELS_SHOWN:
            return suggestion.strip()
        return f"It serves: {', '.join(models)}.{suggestion}"

    def _payload(self, chat: ChatRequest) -> bytes:
        body = chat.body
        body["model"] = self.model
        if self.renames_max_tokens and "max_tokens" in body:
            limit = body.pop("max_tokens")
            body.setdefault("max_completion_tokens", limit)
        if chat.stream and not self._stream_options:
            body.pop("stream_options", None)
        elif chat.stream:
            options = body.get("stream_options")
            if not isinstance(options, dict) or options.get("include_usage") is not True:
                options = options if isinstance(options, dict) else {}
                body["stream_options"] = {**options, "include_usage": True}
        return dumps(body)

    @asynccontextmanager
    async def _post(self, payload: bytes) -> AsyncGenerator[aiohttp.ClientResponse]:
        # aiohttp writes a file-like body in pieces, and warns about a large one that is not.
        data = payload if len(payload) < IN_ONE_PIECE_BYTES else BytesIO(payload)
        with LinkFailures(self._url):
            async with self._opened().post(
                self._url, data=data, headers=self._headers, allow_redirects=False
            ) as response:
                if response.status != 200:
                    failure = failure_of_answer(
                        response.status, response.headers, await _read(response)
                    )
                    self._learn(failure)
                    raise failure
                yield response

    def _learn(self, failure: UpstreamFailure) -> None:
        """An endpoint that does not take ``stream_options`` is asked again without."""
        if (
            self._stream_options
            and failure.kind == "invalid_request"
            and "stream_options" in failure.message
        ):
            self._stream_options = False
            failure.at_once = True

    async def _whole_answer(
        self, response: aiohttp.ClientResponse, chat: ChatRequest, out: EventStream
    ) -> Reply:
        """The endpoint ignored ``stream``: its whole answer becomes events."""
        body = await _read(response)
        try:
            reply = Reply.of_completion(loads(body), chat.requested_model)
        except ValueError:
            raise _not_json(response, body) from None
        await tell(reply, out)
        return reply

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=0,
                    keepalive_timeout=IDLE_CONNECTION_S,
                    ttl_dns_cache=300,
                    socket_factory=socket_with_keepalive,
                ),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body, up to the limit for any answer."""
    length = response.content_length
    if length is not None and length <= MAX_REPLY_BYTES:
        return await response.read()
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_REPLY_BYTES:
            raise UpstreamFailure("bad_response", "The answer is too long.", status=502)
        parts.append(part)
    return b"".join(parts)


def _not_json(response: aiohttp.ClientResponse, body: bytes) -> UpstreamFailure:
    html = "html" in response.headers.get("Content-Type", "") or body.lstrip()[:1] == b"<"
    what = "an HTML page" if html else "not what this API answers"
    return UpstreamFailure(
        "bad_response",
        f"The answer of {response.url.with_user(None)} is {what}.",
        status=502,
        html=html,
    )
