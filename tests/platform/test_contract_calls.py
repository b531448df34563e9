"""Every call that the vendor's command can make has an answer that it can read.

The names in the paths do not exist, so most answers are errors; what counts is that each is JSON
with the two texts and a code, and that none is a page or a failure of the server.
"""

from __future__ import annotations

import httpx
import pytest

CALLS = """
GET verify
GET datasets
GET datasets/x
GET datasets/x/download
GET datasets/x/logs
POST datasets
POST datasets/x/complete
POST datasets/x/abort
GET environment-secrets?scope=all
POST environment-secrets
DELETE environment-secrets
POST eval-runs
GET eval-runs
GET eval-runs/x
GET eval-runs/x/metrics
GET eval-runs/x/logs
POST eval-runs/x/stop
POST eval-runs/x/retry
GET eval-runs/x/samples/manifest?types=metrics%2Ctrajectories
POST eval-runs/x/samples/download-urls
POST eval-runs/imports
POST eval-runs/imports/x/uploads
POST eval-runs/imports/x/uploads/complete
POST eval-runs/imports/x/finalize
POST training-runs
GET training-runs
GET training-runs/x
GET training-runs/x/metrics
GET training-runs/x/checkpoints
GET training-runs/x/logs
POST training-runs/x/stop
GET rollouts
GET rollouts?branch=x
GET models/base
GET models/base/x
GET models/base/Org%2FName
GET models/lora
GET models/x
POST models/x/deploy
POST models/x/undeploy
GET workspaces
GET quickstart?organizationId=x
POST quickstart
GET benchmarks
GET benchmarks/x
GET benchmark-runs
GET benchmark-runs/x
POST benchmark-runs
GET benchmark-runs/x/logs
POST benchmark-runs/x/stop
GET benchmark-runs/x/outputs/manifest?types=summary
POST benchmark-runs/x/outputs/download-urls
POST dev-rollout-server
GET dev-rollout-server
DELETE dev-rollout-server/x
GET dev-rollout-server/x/logs
GET dev-rollout-server/x/logs/stream?tail=5
DELETE tokens/x
"""


@pytest.mark.parametrize("call", CALLS.split("\n")[1:-1])
async def test_every_documented_call_is_answered_in_words(
    client: httpx.AsyncClient, call: str
) -> None:
    method, path = call.split()
    headers = {"Content-Type": "application/json"}
    body = None if method == "GET" else b"{}"
    url = f"/api/cli/{path}"
    answer = await client.request(method, url, headers=headers, content=body)
    assert answer.headers["content-type"].startswith("application/json"), answer.text
    if answer.is_success:
        assert isinstance(answer.json(), dict)
        return
    assert answer.status_code in (400, 403, 404, 409), (answer.status_code, answer.text)
    error = answer.json()
    assert error["error"] == error["message"] and error["code"]
    assert "no GET" not in error["error"] and "no POST" not in error["error"], error
