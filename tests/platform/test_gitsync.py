from __future__ import annotations

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from osmosis.platform.app import create_app
from osmosis.platform.db.models import Repository
from osmosis.platform.gitsync import service
from osmosis.platform.gitsync.catalog import first_paragraph, project_description
from osmosis.platform.gitsync.remotes import derived_identity, parse_remote
from osmosis.platform.platform import Platform
from osmosis.platform.settings import Settings
from osmosis.wire.errors import OsmosisError, ValidationFailed
from tests.platform.conftest import Account, make_account
from tests.platform.git_client import WorkTree, with_token

FILES: dict[str, str | bytes] = {
    "rollouts/multiply/main.py": "print('hi')\n",
    "rollouts/multiply/README.md": "# Multiply\n\n[![ok](x)](y)\n\nMultiplies two\nnumbers.\n",
    "rollouts/calculator/pyproject.toml": '[project]\nname = "c"\ndescription = "Calculates."\n',
    "rollouts/plain/main.py": "",
    "rollouts/notes.txt": "no rollout",
    "configs/eval/multiply.toml": "[experiment]\n",
}

COLLIDING = (16420, 17215)
"""Messages that give two of these commits ids with the same first seven characters."""

COLLIDING_COMMIT = "tree {tree}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\n{message}\n"


@pytest.fixture
def platform_settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data", embedded_worker=False, git_allow_file=True)


@pytest.fixture
async def tree(tmp_path: Path) -> WorkTree:
    return await WorkTree.create(tmp_path / "tree")


async def repository(platform: Platform, account: Account) -> Repository:
    async with platform.db.read() as session:
        return await service.repository_of(session, account.workspace_id)


async def pushed(platform: Platform, account: Account, tree: WorkTree, *refs: str) -> Repository:
    """The tree's branches in the hosted repository, catalogued."""
    hosted = await repository(platform, account)
    path = await service.ensure_hosted(platform, hosted)
    await tree.git("push", "--quiet", "--force", str(path), *(refs or ("--all",)))
    await service.catalogue(platform, hosted.id)
    return await repository(platform, account)


async def refusal(
    platform: Platform, repo: Repository, branch: str | None, sha: str | None
) -> ValidationFailed:
    with pytest.raises(ValidationFailed) as caught:
        await service.resolve_commit(platform, repo, branch, sha)
    return caught.value


# ---------------------------------------------------------------------- resolving


async def test_a_commit_is_resolved_once_to_its_full_id(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    first = await tree.commit(FILES)
    second = await tree.commit({"a": "b"})
    await tree.git("branch", "topic", first)
    repo = await pushed(platform, account, tree)
    resolve = service.resolve_commit
    assert await resolve(platform, repo, None, None) == service.ResolvedCommit("main", second)
    assert await resolve(platform, repo, "topic", None) == service.ResolvedCommit("topic", first)
    for given in (first, first[:7], first[:12].upper()):
        assert (await resolve(platform, repo, None, given)).commit_sha == first


async def test_what_is_not_there_is_refused_with_the_reason(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    empty = await refusal(platform, await repository(platform, account), None, None)
    assert "Nothing has been pushed" in empty.message and "git push" in (empty.hint or "")
    assert (await refusal(platform, await repository(platform, account), None, "a" * 40)).hint
    await tree.commit(FILES)
    await tree.git("branch", "feature/judges")
    repo = await pushed(platform, account, tree)
    branch = await refusal(platform, repo, "feature/judge", None)
    assert "Did you mean 'feature/judges'?" in branch.message
    assert "It has: " in branch.message and "main" in branch.message
    unknown = await refusal(platform, repo, None, "f" * 40)
    assert "has no commit ffff" in unknown.message and "Was it pushed?" in (unknown.hint or "")
    for bad in ("main", "abc", "--all", "g" * 40):
        assert "is no commit id" in (await refusal(platform, repo, None, bad)).message


async def test_a_short_id_of_two_commits_names_both(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    """Two commits whose ids share seven characters, found once by search."""
    empty = await tree.git("hash-object", "-t", "tree", "-w", "/dev/null")
    commits = []
    for message in COLLIDING:
        path = tree.root / "commit"
        path.write_text(COLLIDING_COMMIT.format(tree=empty, message=message))
        commits.append(await tree.git("hash-object", "-t", "commit", "-w", str(path)))
    await tree.git("update-ref", "refs/heads/one", commits[0])
    await tree.git("update-ref", "refs/heads/two", commits[1])
    repo = await pushed(platform, account, tree)
    assert commits[0][:7] == commits[1][:7]
    error = await refusal(platform, repo, None, commits[0][:7])
    assert "could be any of 2 commits" in error.message
    assert all(commit[:16] in error.message for commit in commits)
    found = await service.resolve_commit(platform, repo, None, commits[1][:16])
    assert found.commit_sha == commits[1]


async def test_a_branch_named_like_a_commit_does_not_hide_it(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    first = await tree.commit(FILES)
    await tree.commit({"a": "b"})
    await tree.git("update-ref", f"refs/heads/{first[:8]}", "HEAD")
    repo = await pushed(platform, account, tree)
    found = await service.resolve_commit(platform, repo, None, first[:8])
    assert found.commit_sha == first


async def test_a_force_pushed_commit_stays_readable(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    first = await tree.commit(FILES)
    repo = await pushed(platform, account, tree)
    await tree.git("commit", "--quiet", "--amend", "-m", "Other")
    repo = await pushed(platform, account, tree)
    assert (await service.resolve_commit(platform, repo, None, first)).commit_sha == first
    assert await service.read_file_at(platform, repo, first, "rollouts/plain/main.py") == b""


# ---------------------------------------------------------------------- reading


async def test_paths_trees_and_files_are_read_at_the_commit(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    commit = await tree.commit(FILES)
    repo = await pushed(platform, account, tree)

    async def kind(path: str) -> str | None:
        return await service.path_kind_at(platform, repo, commit, path)

    assert await kind("rollouts/multiply") == "tree"
    assert await kind("rollouts/multiply/main.py") == "blob"
    for absent in ("rollouts/no thing 5", "../x", "rollouts\nx", "a\0b"):
        assert await kind(absent) is None
    assert await service.path_exists_at(platform, repo, commit, "configs")
    names = [entry.name for entry in await service.list_tree(platform, repo, commit, "rollouts")]
    assert names == ["calculator", "multiply", "notes.txt", "plain"]
    main = await service.read_file_at(platform, repo, commit, "rollouts/multiply/main.py")
    assert main == b"print('hi')\n"
    assert await service.read_file_at(platform, repo, commit, "rollouts") is None


async def test_the_archive_is_the_whole_tree_whatever_its_attributes_say(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    hidden = {".gitattributes": "secret.txt export-ignore\nv.txt export-subst\n"}
    commit = await tree.commit({**FILES, **hidden, "secret.txt": "s", "v.txt": "$Format:%H$"})
    repo = await pushed(platform, account, tree)
    content = b"".join([chunk async for chunk in service.archive(platform, repo, commit)])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = {member.name for member in archive if member.isfile()}
        version = archive.extractfile("v.txt")
        assert version and version.read() == b"$Format:%H$"
    assert names == {*FILES, *hidden, "secret.txt", "v.txt"}


async def test_an_archive_that_breaks_raises_instead_of_ending(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    await tree.commit(FILES)
    repo = await pushed(platform, account, tree)
    with pytest.raises(OsmosisError, match="cannot be read"):
        async for _ in service.archive(platform, repo, "e" * 40):
            pass


async def test_an_archive_that_nobody_reads_on_leaves_no_process(
    platform: Platform, account: Account, tree: WorkTree
) -> None:
    commit = await tree.commit({"big": os.urandom(4 * 2**20)})
    repo = await pushed(platform, account, tree)
    stream = service.archive(platform, repo, commit)
    await anext(stream)
    before = archives()
    await stream.aclose()  # type: ignore[attr-defined]
    assert before and not archives()


def archives() -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"archive" in words and b"--git-dir" in words:
            found.append(entry.parent.name)
    return found


# ---------------------------------------------------------------------- the catalogue


async def test_rollouts_are_listed_per_branch_with_their_description(
    client: httpx.AsyncClient, platform: Platform, account: Account, tree: WorkTree
) -> None:
    commit = await tree.commit(FILES)
    await tree.git("switch", "--quiet", "--create", "topic")
    topic = await tree.commit({"rollouts/extra/main.py": ""})
    await pushed(platform, account, tree)
    page = (await client.get("/api/cli/rollouts?limit=50&offset=0")).json()
    assert page["total_count"] == 3 and page["next_offset"] is None
    assert {item["name"]: item["description"] for item in page["rollouts"]} == {
        "calculator": "Calculates.",
        "multiply": "Multiplies two numbers.",
        "plain": None,
    }
    item = page["rollouts"][0]
    assert item["is_active"] is True and item["last_synced_commit_sha"] == commit
    assert item["repo_full_name"] == "ada/agents" and item["last_synced_at"].endswith("Z")
    other = (await client.get("/api/cli/rollouts?branch=topic&limit=2&offset=2")).json()
    assert [item["name"] for item in other["rollouts"]] == ["multiply", "plain"]
    assert other["rollouts"][0]["last_synced_commit_sha"] == topic
    missing = await client.get("/api/cli/rollouts?branch=topics")
    assert missing.status_code == 404 and "Did you mean 'topic'?" in missing.json()["error"]


async def test_before_the_first_push_there_are_no_rollouts(client: httpx.AsyncClient) -> None:
    page = (await client.get("/api/cli/rollouts")).json()
    assert (page["rollouts"], page["total_count"]) == ([], 0)


async def test_the_catalogue_follows_removed_rollouts_and_keeps_ids(
    client: httpx.AsyncClient, platform: Platform, account: Account, tree: WorkTree
) -> None:
    await tree.commit(FILES)
    await pushed(platform, account, tree)
    before = {
        r["name"]: r["id"] for r in (await client.get("/api/cli/rollouts")).json()["rollouts"]
    }
    await tree.git("rm", "-rq", "rollouts/plain")
    await tree.commit({})
    await pushed(platform, account, tree)
    after = {r["name"]: r["id"] for r in (await client.get("/api/cli/rollouts")).json()["rollouts"]}
    assert after == {name: before[name] for name in ("calculator", "multiply")}


async def test_the_default_branch_is_the_one_that_is_there(
    client: httpx.AsyncClient, platform: Platform, account: Account, tmp_path: Path
) -> None:
    tree = await WorkTree.create(tmp_path / "other", "trunk")
    commit = await tree.commit(FILES)
    await pushed(platform, account, tree)
    status = (await client.get("/api/cli/git/status")).json()
    assert status["repository"]["default_branch"] == "trunk"
    assert status["repository"]["url"] == "http://127.0.0.1:7670/git/ada/agents.git"
    (branch,) = status["branches"]
    assert (branch["name"], branch["commit_sha"], branch["rollouts"]) == ("trunk", commit, 3)
    assert branch["is_default"] is True


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("# Title\n\nOne.\n\nTwo.\n", "One."),
        ("Title\n=====\nOne.\n", "One."),
        ("# Title\nDirectly below.\n", "Directly below."),
        ("<!-- a\n\nb -->\n```sh\nx\n```\n\n- list\n\nText\nhere", "Text here"),
        ("# Only a title\n", None),
        ("", None),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_a_readme_gives_its_first_paragraph(text: str, description: str | None) -> None:
    assert first_paragraph(text) == description


@pytest.mark.parametrize("toml", ["", "x", "project = 3", "[project]\ndescription = 3", "[" * 9999])
def test_a_strange_pyproject_gives_no_description(toml: str) -> None:
    assert project_description(toml) is None


# ---------------------------------------------------------------------- remote repositories


async def connect(client: httpx.AsyncClient, url: str, **more: str) -> httpx.Response:
    return await client.post("/api/cli/workspaces/connect", json={"url": url, **more})


async def test_a_repository_on_disk_is_connected_fetched_and_followed(
    client: httpx.AsyncClient, platform: Platform, account: Account, tree: WorkTree
) -> None:
    first = await tree.commit(FILES)
    answer = await connect(client, f"file://{tree.root}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["repository"]["kind"] == "remote"
    assert answer.json()["connected_repo"] == {"repo_full_name": "ada/agents"}
    assert (await client.get("/api/cli/rollouts")).json()["total_count"] == 3
    second = await tree.commit({"a": "b"})
    await tree.git("branch", "topic", first)
    repo = await repository(platform, account)
    assert (await service.resolve_commit(platform, repo, None, None)).commit_sha == second
    assert (await service.resolve_commit(platform, repo, "topic", None)).commit_sha == first
    third = await tree.commit({"a": "c"})
    assert (await service.resolve_commit(platform, repo, None, third[:9])).commit_sha == third
    await tree.git("branch", "-D", "topic")
    synced = await client.post("/api/cli/git/sync", json={})
    assert synced.json()["branch_count"] == 1
    pushed_to = await client.get("/git/ada/agents.git/info/refs?service=git-receive-pack")
    assert pushed_to.status_code == 404 and "not hosted here" in pushed_to.text


async def test_a_workspace_connects_back_to_the_hosted_repository(
    client: httpx.AsyncClient, tree: WorkTree
) -> None:
    await tree.commit(FILES)
    await connect(client, f"file://{tree.root}")
    answer = await client.post("/api/cli/workspaces/connect", json={})
    assert answer.json()["repository"]["kind"] == "hosted"
    assert answer.json()["repository"]["url"].endswith("/git/ada/agents.git")


async def test_an_unreadable_remote_is_not_connected(
    client: httpx.AsyncClient, platform: Platform, account: Account, tmp_path: Path
) -> None:
    answer = await connect(client, f"file://{tmp_path}/nothing.git")
    assert answer.status_code == 400 and "no such repository" in answer.json()["error"]
    assert (await repository(platform, account)).kind == "hosted"


async def test_a_remote_that_vanishes_is_noted_and_a_known_commit_still_resolves(
    client: httpx.AsyncClient, platform: Platform, account: Account, tree: WorkTree
) -> None:
    commit = await tree.commit(FILES)
    await connect(client, f"file://{tree.root}")
    tree.root.rename(tree.root.with_name("moved"))
    repo = await repository(platform, account)
    with pytest.raises(OsmosisError, match="cannot be fetched: there is no such repository"):
        await service.resolve_commit(platform, repo, None, None)
    status = (await client.get("/api/cli/git/status")).json()
    assert "cannot be fetched" in status["repository"]["last_error"]
    assert (await service.resolve_commit(platform, repo, None, commit)).commit_sha == commit


async def test_files_may_only_be_connected_where_the_setting_allows_it(
    client: httpx.AsyncClient, platform: Platform, tree: WorkTree
) -> None:
    await tree.commit(FILES)
    platform.settings.__dict__["git_allow_file"] = False
    for url in (f"file://{tree.root}", str(tree.root)):
        answer = await connect(client, url)
        assert answer.status_code == 400 and "may not be connected" in answer.json()["error"]


@pytest.mark.parametrize(
    ("url", "more", "said"),
    [
        ("https://me:canary@example.test/a/b.git", {}, "contains a user name or password"),
        ("https://example.test", {}, "must end with the repository's path"),
        ("ext::sh -c id", {}, "malformed"),
        ("ext::sh", {}, "no git URL"),
        ("ftp://example.test/a/b", {}, "'ftp' is not supported"),
        ("-uhttps://example.test/a", {}, "begins with '-'"),
        ("ssh://-oProxyCommand=id/a/b", {}, "host name"),
        ("git@example.test:a/b.git", {}, "needs a deploy key"),
        ("git@example.test:a/b.git", {"token": "canary"}, "https:// addresses only"),
        ("http://example.test/a/b.git", {"token": "canary"}, "unencrypted"),
        ("https://example.test/a/b.git", {"deploy_key": "canary"}, "ssh addresses only"),
        ("git@example.test:a/b.git", {"deploy_key": "ssh-rsa canary"}, "not a private key"),
        ("https://example.test/a/b.git", {"token": "canary\nx"}, "characters that no token has"),
    ],
)
async def test_an_address_or_credential_that_cannot_work_is_refused_and_not_repeated(
    client: httpx.AsyncClient, url: str, more: dict[str, str], said: str
) -> None:
    answer = await connect(client, url, **more)
    assert answer.status_code == 400
    assert said in answer.json()["error"] and "canary" not in answer.text


async def test_only_a_manager_connects_a_repository(
    anonymous: httpx.AsyncClient, platform: Platform, tree: WorkTree
) -> None:
    await tree.commit(FILES)
    member = await make_account(
        platform, email="m@example.test", workspace="w", identity="m/w", role="member"
    )
    answer = await anonymous.post(
        "/api/cli/workspaces/connect",
        headers={"Authorization": f"Bearer {member.token}"},
        json={"workspace": "w", "url": f"file://{tree.root}"},
    )
    assert answer.status_code == 403 and "owner or admin" in answer.json()["error"]


def test_an_identity_is_derived_from_the_path() -> None:
    def derived(url: str) -> str:
        return derived_identity(parse_remote(url, allow_file=True))

    assert (
        derived("https://git.example.test/team/Sub/My Repo.git".replace(" ", "_")) == "sub/my_repo"
    )
    assert derived("git@example.test:Ada/agents.git") == "ada/agents"
    assert derived("file:///srv/agents") == "srv/agents"


# ---------------------------------------------------------------------- credentials


@pytest.fixture
async def forge(tmp_path: Path) -> AsyncIterator[tuple[str, Account]]:
    """Another server that hosts 'eve/code' behind a token."""
    app = create_app(Settings(data_dir=tmp_path / "forge", embedded_worker=False))
    async with app.router.lifespan_context(app):
        account = await make_account(
            app.state.platform, email="eve@example.test", workspace="code", identity="eve/code"
        )
        config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, ws="none")
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve())
        async with asyncio.timeout(10):
            while not server.started:  # noqa: ASYNC110  uvicorn offers no event
                await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", account
        server.should_exit = True
        await task


async def test_a_token_reaches_its_host_and_nothing_else(
    client: httpx.AsyncClient,
    platform: Platform,
    account: Account,
    tree: WorkTree,
    forge: tuple[str, Account],
    tmp_path: Path,
) -> None:
    base, owner = forge
    commit = await tree.commit(FILES)
    await tree.git("push", "--quiet", with_token(base, owner.identity, owner.token), "main")
    url = f"{base}/git/{owner.identity}.git"
    without = await connect(client, url)
    assert without.status_code == 400 and "did not accept the credential" in without.text
    wrong = await connect(client, url, token="osm_canary")
    assert wrong.status_code == 400 and "canary" not in wrong.text
    answer = await connect(client, url, token=owner.token)
    assert answer.status_code == 200, answer.text
    assert answer.json()["repository"]["credential"] == "token"
    client.headers["X-Osmosis-Git"] = owner.identity
    repo = await repository(platform, account)
    assert (await service.resolve_commit(platform, repo, None, None)).commit_sha == commit
    for place in (answer.text, (await client.get("/api/cli/git/status")).text):
        assert owner.token not in place
    await platform.db.close()
    for path in platform.settings.data_dir.rglob("*"):
        if path.is_file():
            assert owner.token.encode() not in path.read_bytes(), path


async def test_the_askpass_helper_gives_the_token_to_no_other_host(
    platform: Platform,
) -> None:
    from osmosis.platform.gitsync.credentials import access_with

    remote = parse_remote("https://git.example.test:8443/a/b.git", allow_file=False)
    with access_with(platform.settings, remote, "token", "canary") as access:
        for prompt, expected in (
            ("Username for 'https://evil.test': ", b""),
            ("Password for 'https://x-access-token@evil.test': ", b""),
            ("Password for 'https://x@evil.test/@git.example.test:8443': ", b""),
            ("Username for 'https://git.example.test:8443': ", b"x-access-token\n"),
            ("Password for 'https://x-access-token@git.example.test:8443': ", b"canary\n"),
            ("Password for 'https://x-access-token@git.example.test:8443': ", b""),
        ):
            process = await asyncio.create_subprocess_exec(
                access.environment["GIT_ASKPASS"],
                prompt,
                env=dict(access.environment) | {"PATH": os.environ["PATH"]},
                pass_fds=access.descriptors,
                stdout=asyncio.subprocess.PIPE,
            )
            output, _ = await process.communicate()
            assert output == expected, prompt
        assert "canary" not in str(access.environment)


async def test_a_deploy_key_is_readable_for_ssh_alone_and_then_gone(
    client: httpx.AsyncClient,
    platform: Platform,
    tree: WorkTree,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await tree.commit(FILES)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh").write_text(
        "#!/bin/sh\n"
        f'for word; do echo "$word" >> {tmp_path}/words; done\n'
        f"env >> {tmp_path}/words\n"
        'while [ "$1" != -i ]; do shift; done\n'
        f'cat "$2" > {tmp_path}/key; stat -L -c %a "$2" > {tmp_path}/mode\n'
        'while [ $# -gt 1 ]; do shift; done\nexec sh -c "$1"\n'
    )
    (tools / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n-----END OPENSSH PRIVATE KEY-----\n"
    answer = await connect(client, f"ssh://git@forge.test{tree.root}", deploy_key=key)
    assert answer.status_code == 200, answer.text
    assert (tmp_path / "key").read_text() == key and (tmp_path / "mode").read_text() == "600\n"
    words = (tmp_path / "words").read_text()
    assert "canary" not in words and "BatchMode=yes" in words
    assert "StrictHostKeyChecking=accept-new" in words
    await platform.db.close()
    for path in platform.settings.data_dir.rglob("*"):
        if path.is_file():
            assert b"canary" not in path.read_bytes(), path


async def test_a_remote_that_never_answers_is_given_up(
    client: httpx.AsyncClient, platform: Platform
) -> None:
    platform.settings.__dict__["git_fetch_timeout_s"] = 0.3
    gone = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        gone.set()

    server = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    answer = await connect(client, f"http://127.0.0.1:{port}/a/b.git")
    assert answer.status_code == 400 and "took too long" in answer.json()["error"]
    await gone.wait()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("page", [b"<html>hello</html>", b"<html>\nhello\n</html>\n"])
async def test_a_web_page_is_not_taken_for_an_empty_repository(
    client: httpx.AsyncClient, platform: Platform, account: Account, page: bytes
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(page)}"
        writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode() + page)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        refused = await connect(client, f"http://127.0.0.1:{port}/a/b.git")
    assert refused.status_code == 400, refused.text
    assert "what answers there is no git repository" in refused.json()["error"]
    assert (await repository(platform, account)).kind == "hosted"


async def test_an_empty_repository_is_connected_over_http(
    client: httpx.AsyncClient, forge: tuple[str, Account]
) -> None:
    base, owner = forge
    connected = await connect(client, f"{base}/git/{owner.identity}.git", token=owner.token)
    assert connected.status_code == 200, connected.text
    assert connected.json()["repository"]["kind"] == "remote"
