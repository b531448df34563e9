"""Pages of the vendor's platform that its command line links to, and what is there instead."""

from __future__ import annotations

from fastapi import APIRouter

from osmosis.platform.deps import CurrentPlatform, PageUser
from osmosis.platform.web.access import member_workspace
from osmosis.wire.errors import NotFound

INSTEAD: dict[str, tuple[str, str]] = {
    "integrations/git": (
        "A repository is connected from the command line.",
        "Run `osmosis workspace connect` in its directory, with a URL when it is hosted elsewhere.",
    ),
    "billing": (
        "There is no billing on this server.",
        "Model providers are paid by your own keys.",
    ),
    "benchmarks": (
        "This server has no benchmarks.",
        "Evaluate a rollout of your own: `osmosis eval submit configs/eval/FILE.toml`.",
    ),
    "api-keys": (
        "Models are not served from here, so there are no keys for them.",
        "A token for the command line comes from `osmosis auth login`.",
    ),
}

router = APIRouter(include_in_schema=False)


def _add(place: str, message: str, hint: str) -> None:
    async def instead(workspace: str, platform: CurrentPlatform, user: PageUser) -> None:
        async with platform.db.read() as session:
            await member_workspace(session, user.user_id, workspace)
        raise NotFound(message, hint=hint)

    router.add_api_route(f"/{{workspace}}/{place}", instead, name=place)


for _place, _said in INSTEAD.items():
    _add(_place, *_said)
