from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import select

from osmosis.platform.db.models import Branch, Repository, Rollout
from osmosis.platform.gitsync.service import repo_path, repository_of
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from tests.platform.conftest import Account
from tests.platform.git_client import WorkTree, with_token

ROLLOUT = {"rollouts/multiply/main.py": "x = 1\n", "rollouts/multiply/README.md": "# M\n\nTimes.\n"}


@pytest.fixture
async def tree(tmp_path: Path) -> WorkTree:
    return await WorkTree.create(tmp_path / "tree")


@pytest.fixture
def remote(live_url: str, account: Account) -> str:
    return with_token(live_url, account.identity, account.token)


async def repository(platform: Platform, account: Account) -> Repository:
    async with platform.db.read() as session:
        return await repository_of(session, account.workspace_id)


async def branches(platform: Platform) -> dict[str, str]:
    async with platform.db.read() as session:
        return {b.name: b.commit_sha for b in (await session.execute(select(Branch))).scalars()}


def git_processes(platform: Platform) -> list[int]:
    """Live processes that work on this platform's repositories."""
    mark = f"GIT_PROJECT_ROOT={platform.settings.git_dir}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


async def eventually(condition: Callable[[], bool], deadline_s: float = 10.0) -> None:
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110  the condition is another process's life
            await asyncio.sleep(0.02)


async def test_a_push_is_catalogued_when_the_command_returns(
    tree: WorkTree, remote: str, platform: Platform
) -> None:
    commit = await tree.commit(ROLLOUT)
    await tree.git("push", remote, "main")
    assert await branches(platform) == {"main": commit}
    async with platform.db.read() as session:
        (rollout,) = (await session.execute(select(Rollout))).scalars()
    assert (rollout.name, rollout.description, rollout.commit_sha) == ("multiply", "Times.", commit)


async def test_a_clone_gets_what_was_pushed(tree: WorkTree, remote: str, tmp_path: Path) -> None:
    commit = await tree.commit(ROLLOUT)
    await tree.git("push", remote, "main")
    await tree.git("clone", "--quiet", remote, str(tmp_path / "copy"))
    copy = WorkTree(tmp_path / "copy")
    assert await copy.git("rev-parse", "HEAD") == commit
    assert await copy.git("branch", "--show-current") == "main"


async def test_a_big_push_arrives_in_chunks(
    tree: WorkTree, remote: str, platform: Platform, account: Account
) -> None:
    commit = await tree.commit({"big.bin": os.urandom(6 * 2**20)})
    trace = await tree.git(
        "-c", "http.postBuffer=65536", "push", remote, "main", GIT_CURL_VERBOSE="1"
    )
    assert "Transfer-Encoding: chunked" in trace
    assert await branches(platform) == {"main": commit}
    path = repo_path(platform.settings, await repository(platform, account))
    await WorkTree(path).git("fsck", "--strict")


async def test_a_negotiation_that_git_compresses_is_understood(
    tree: WorkTree, remote: str, tmp_path: Path
) -> None:
    await tree.commit({"a": "0"})
    for number in range(40):
        await tree.git("branch", f"topic/{number}")
    await tree.git("push", "--quiet", remote, "--all")
    copy = await WorkTree.create(tmp_path / "copy")
    for number in range(30):
        await copy.git("commit", "--quiet", "--allow-empty", "-m", str(number))
    trace = await copy.git(
        "-c",
        "protocol.version=0",
        "fetch",
        remote,
        "+refs/heads/*:refs/remotes/o/*",
        GIT_CURL_VERBOSE="1",
    )
    assert "Content-Encoding: gzip" in trace
    assert len((await copy.git("branch", "--remotes")).splitlines()) == 41


async def test_protocol_version_2_is_spoken(tree: WorkTree, remote: str) -> None:
    await tree.commit(ROLLOUT)
    await tree.git("push", "--quiet", remote, "main")
    packets = await tree.git("-c", "protocol.version=2", "ls-remote", remote, GIT_TRACE_PACKET="1")
    assert "version 2" in packets and "command=ls-refs" in packets


@pytest.mark.parametrize("version", ["0", "2"])
async def test_a_shallow_clone_works(
    tree: WorkTree, remote: str, tmp_path: Path, version: str
) -> None:
    for number in range(3):
        await tree.commit({"a": str(number)})
    await tree.git("push", "--quiet", remote, "main")
    config = f"protocol.version={version}"
    await tree.git("-c", config, "clone", "--quiet", "--depth=1", remote, str(tmp_path / "c"))
    assert (tmp_path / "c" / "a").read_text() == "2"


async def test_force_push_and_branch_deletion_are_followed(
    tree: WorkTree, remote: str, platform: Platform, account: Account
) -> None:
    first = await tree.commit(ROLLOUT)
    await tree.git("push", "--quiet", remote, "main", "main:topic")
    await tree.git("commit", "--quiet", "--amend", "-m", "Another")
    amended = await tree.git("rev-parse", "HEAD")
    await tree.git("push", "--quiet", "--force", remote, "main")
    assert await branches(platform) == {"main": amended, "topic": first}
    await tree.git("push", "--quiet", remote, "--delete", "topic")
    assert await branches(platform) == {"main": amended}
    await tree.git("push", "--quiet", remote, "--delete", "main")
    assert await branches(platform) == {}
    path = repo_path(platform.settings, await repository(platform, account))
    assert await WorkTree(path).git("cat-file", "-t", first) == "commit"


async def test_concurrent_pushes_all_arrive(
    live_url: str, account: Account, platform: Platform, tmp_path: Path
) -> None:
    remote = with_token(live_url, account.identity, account.token)
    trees = [await WorkTree.create(tmp_path / str(n), f"b{n}") for n in range(6)]
    commits = [await t.commit({f"rollouts/r{n}/main.py": ""}) for n, t in enumerate(trees)]
    await asyncio.gather(*(t.git("push", remote, f"b{n}") for n, t in enumerate(trees)))
    assert await branches(platform) == {f"b{n}": commit for n, commit in enumerate(commits)}


async def test_a_wrong_token_is_asked_for_again_and_told(
    tree: WorkTree, live_url: str, account: Account, anonymous: httpx.AsyncClient
) -> None:
    await tree.commit(ROLLOUT)
    said = await tree.fails("push", with_token(live_url, account.identity, "osm_wrong"), "main")
    assert "Authentication failed" in said
    answer = await anonymous.get(f"/git/{account.identity}.git/info/refs?service=git-upload-pack")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")


async def test_the_token_of_another_workspace_is_refused(
    tree: WorkTree, live_url: str, account: Account, stranger: Account, platform: Platform
) -> None:
    await tree.commit(ROLLOUT)
    said = await tree.fails("push", with_token(live_url, account.identity, stranger.token), "main")
    assert "403" in said and "no access to the workspace of 'ada/agents'" in said
    assert await branches(platform) == {}


async def test_a_worker_token_is_no_persons_token(
    anonymous: httpx.AsyncClient, account: Account, platform_settings: Settings
) -> None:
    token = platform_settings.worker_token_file.read_text().strip()
    answer = await anonymous.get(
        f"/git/{account.identity}.git/info/refs?service=git-upload-pack", auth=("x", token)
    )
    assert answer.status_code == 401


async def test_an_unknown_repository_is_not_made_by_pushing(
    tree: WorkTree, live_url: str, account: Account, platform_settings: Settings
) -> None:
    await tree.commit(ROLLOUT)
    said = await tree.fails("push", with_token(live_url, "ada/nothing", account.token), "main")
    assert "remote: The repository 'ada/nothing' is not connected" in said
    assert not list(platform_settings.git_dir.glob("*.git"))


async def test_bearer_and_any_user_name_are_taken(
    anonymous: httpx.AsyncClient, account: Account
) -> None:
    url = f"/git/{account.identity}.git/info/refs?service=git-upload-pack"
    for headers in (
        {"Authorization": f"Bearer {account.token}"},
        {"Authorization": "Basic " + base64.b64encode(f"me:{account.token}".encode()).decode()},
        {"Authorization": "basic " + base64.b64encode(f"{account.token}:".encode()).decode()},
    ):
        answer = await anonymous.get(url, headers=headers)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/x-git-upload-pack-advertisement"
        assert answer.headers["cache-control"].startswith("no-cache")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "info/refs"),
        ("GET", "info/refs?service=git-upload-archive"),
        ("GET", "HEAD"),
        ("GET", "objects/info/packs"),
        ("GET", "config"),
        ("GET", "../../osmosis.db"),
        ("GET", "..%2f..%2fosmosis.db"),
        ("GET", "git-receive-pack"),
        ("POST", "info/refs?service=git-upload-pack"),
    ],
)
async def test_nothing_but_the_smart_protocol_is_served(
    client: httpx.AsyncClient, account: Account, method: str, path: str
) -> None:
    answer = await client.request(method, f"/git/{account.identity}.git/{path}")
    assert answer.status_code in (400, 404)


async def test_a_hook_in_the_repository_never_runs(
    tree: WorkTree, remote: str, platform: Platform, account: Account, tmp_path: Path
) -> None:
    await tree.commit(ROLLOUT)
    await tree.git("push", "--quiet", remote, "main")
    path = repo_path(platform.settings, await repository(platform, account))
    hooks = path / "hooks"
    hooks.mkdir()
    for name in ("pre-receive", "update", "post-receive"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
        (hooks / name).chmod(0o755)
    await tree.commit({"a": "b"})
    await tree.git("push", "--quiet", remote, "main")
    assert not (tmp_path / "ran").exists()


async def test_git_on_the_server_sees_nothing_of_the_servers_environment(
    tree: WorkTree, remote: str, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    from osmosis.platform.githost.backend import GitRequest, cgi_environment

    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    ask = GitRequest("GET", Path("/d/x.git"), "info/refs", "", "ada", {"proxy": "evil"})
    environment = cgi_environment(platform.settings, ask)
    assert "sk-canary" not in environment.values()
    assert "GIT_DIR" not in environment and "HTTP_PROXY" not in environment


async def test_a_pack_over_the_limit_is_refused(
    tree: WorkTree, remote: str, platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.settings.__dict__["git_push_bytes"] = 2**20
    await tree.commit({"big.bin": os.urandom(3 * 2**20)})
    said = await tree.fails("-c", "http.postBuffer=65536", "push", remote, "main")
    assert "exceeds maximum allowed size" in said
    assert await branches(platform) == {}
    await eventually(lambda: not git_processes(platform))


async def test_damaged_objects_are_refused(tree: WorkTree, remote: str, platform: Platform) -> None:
    await tree.commit(ROLLOUT)
    parent = await tree.git("rev-parse", "HEAD^{tree}")
    bad = tree.root / "bad-commit"
    bad.write_text(f"tree {parent}\nauthor nobody\ncommitter nobody\n\nx\n")
    commit = await tree.git("hash-object", "-t", "commit", "-w", "--literally", str(bad))
    said = await tree.fails("push", remote, f"{commit}:refs/heads/main")
    assert "fsck error" in said or "missingEmail" in said or "unpack failed" in said
    assert await branches(platform) == {}


async def hung_up_push(live_url: str, account: Account, body: bytes) -> asyncio.StreamWriter:
    """Begin a push by hand, send a part of a pack, and go away."""
    place = urlsplit(live_url)
    _, writer = await asyncio.open_connection(place.hostname, place.port)
    login = base64.b64encode(f"x:{account.token}".encode()).decode()
    writer.write(
        f"POST /git/{account.identity}.git/git-receive-pack HTTP/1.1\r\n"
        f"Host: {place.netloc}\r\nAuthorization: Basic {login}\r\n"
        "Content-Type: application/x-git-receive-pack-request\r\n"
        f"Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode()
        + body
        + b"\r\n"
    )
    await writer.drain()
    return writer


async def test_a_client_that_hangs_up_leaves_no_process_and_a_whole_repository(
    tree: WorkTree, remote: str, live_url: str, account: Account, platform: Platform
) -> None:
    kept = await tree.commit(ROLLOUT)
    await tree.git("push", "--quiet", remote, "main")
    commit = await tree.commit({"big.bin": os.urandom(2**20)})
    pack = subprocess.run(  # noqa: ASYNC221  small, and binary
        ["git", "-C", tree.root, "pack-objects", "--stdout", "--revs"],
        input=b"main\n^" + kept.encode() + b"\n",
        capture_output=True,
        check=True,
    ).stdout
    command = f"{kept} {commit} refs/heads/main\0 report-status".encode()
    lines = f"{len(command) + 4:04x}".encode() + command + b"0000"
    writer = await hung_up_push(live_url, account, lines + pack[: len(pack) // 2])
    await eventually(lambda: any("receive-pack" in _command(p) for p in git_processes(platform)))
    writer.transport.abort()
    await eventually(lambda: not git_processes(platform))
    path = repo_path(platform.settings, await repository(platform, account))
    assert not list((path / "objects").glob("*incoming*"))
    assert await branches(platform) == {"main": kept}
    await WorkTree(path).git("fsck")
    await tree.git("push", "--quiet", remote, "main")
    assert await branches(platform) == {"main": commit}


async def test_a_killed_git_client_leaves_no_process(
    tree: WorkTree, remote: str, platform: Platform
) -> None:
    await tree.commit({"big.bin": os.urandom(24 * 2**20)})
    push = await tree.start("-c", "http.postBuffer=65536", "push", remote, "main")
    await eventually(lambda: any("receive-pack" in _command(p) for p in git_processes(platform)))
    os.killpg(push.pid, signal.SIGKILL)
    await push.communicate()
    await eventually(lambda: not git_processes(platform))
    await tree.git("push", "--quiet", remote, "main")
    assert len(await branches(platform)) == 1


async def test_a_transfer_that_stands_still_is_ended(
    live_url: str, account: Account, platform: Platform
) -> None:
    platform.settings.__dict__["git_idle_timeout_s"] = 0.5
    writer = await hung_up_push(live_url, account, b"00")
    await eventually(lambda: bool(git_processes(platform)))
    await eventually(lambda: not git_processes(platform))
    writer.close()


async def test_too_many_transfers_at_once_are_told_to_come_back(
    client: httpx.AsyncClient, account: Account, platform_app, monkeypatch: pytest.MonkeyPatch
) -> None:
    from osmosis.platform.githost import app as githost

    monkeypatch.setattr(githost, "BUSY_WAIT_S", 0.05)
    (host,) = [
        r.app for r in platform_app.routes if isinstance(getattr(r, "app", None), githost.GitHost)
    ]
    host._slots = asyncio.Semaphore(0)
    answer = await client.get(f"/git/{account.identity}.git/info/refs?service=git-upload-pack")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "30")


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


async def test_odd_refs_links_and_submodules_are_catalogued_without_being_followed(
    tree: WorkTree, remote: str, platform: Platform, client: httpx.AsyncClient, tmp_path: Path
) -> None:
    await tree.commit(ROLLOUT)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "README.md").write_text("# S\n\nNot yours.\n")
    (secret / "main.py").write_text("x = 1\n")
    rollouts = tree.root / "rollouts"
    (rollouts / "linked").symlink_to(secret)
    (rollouts / "reading").mkdir()
    (rollouts / "reading/main.py").write_text("x = 1\n")
    (rollouts / "reading/README.md").symlink_to(secret / "README.md")
    head = await tree.git("rev-parse", "HEAD")
    await tree.git("update-index", "--add", "--cacheinfo", f"160000,{head},rollouts/module")
    commit = await tree.commit({})
    odd = ["--output=x", "-b", "HEAD", "refs/heads/main", "ünïcode", "x" * 200]
    refs = [f"{commit}:refs/heads/{name}" for name in odd]
    refs += [f"{commit}:refs/heads/many/{number}" for number in range(500)]
    await tree.git("push", "--quiet", remote, f"{commit}:refs/heads/main", *refs)
    for bad in ("refs/heads/../../x", "refs/heads/a..b", "refs/../config"):
        await tree.fails("push", remote, f"{commit}:{bad}")
    found = await branches(platform)
    assert set(found.values()) == {commit}
    assert {"main", "many/499"} <= set(found)
    listed = (await client.get("/api/cli/rollouts?limit=50")).json()
    assert "Not yours" not in str(listed)
    bare = next(platform.settings.git_dir.glob("*.git"))
    assert not (bare / "config").read_text().startswith(commit)
    assert not list(platform.settings.git_dir.glob("x"))
