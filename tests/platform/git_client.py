"""A person's git, for tests: a work tree that knows how to push to a server under test."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path

ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.test",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.test",
    "HOME": "/nonexistent",
    "PATH": os.environ["PATH"],
}


class GitError(AssertionError):
    pass


@dataclass
class WorkTree:
    """A repository on the person's disk."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    async def create(cls, root: Path, branch: str = "main") -> WorkTree:
        root.mkdir(parents=True)
        tree = cls(root)
        await tree.git("init", "--quiet", f"--initial-branch={branch}")
        return tree

    async def start(self, *arguments: str, **extra: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "git",
            *arguments,
            cwd=self.root,
            env=ENVIRONMENT | self.environment | extra,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    async def git(self, *arguments: str, **extra: str) -> str:
        process = await self.start(*arguments, **extra)
        output, _ = await process.communicate()
        if process.returncode != 0:
            raise GitError(output.decode(errors="replace"))
        return output.decode(errors="replace").strip()

    async def commit(self, files: dict[str, str | bytes], message: str = "Change") -> str:
        """Write the files, commit them, and return the commit's id."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        await self.git("add", "--all")
        await self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return await self.git("rev-parse", "HEAD")

    async def fails(self, *arguments: str) -> str:
        """The output of a command that must fail."""
        try:
            output = await self.git(*arguments)
        except GitError as error:
            return str(error)
        raise AssertionError(f"git {arguments} succeeded: {output}")


def with_token(base_url: str, identity: str, token: str, user: str = "any") -> str:
    """The push address with the token as password, as git's credential helper would fill it in."""
    return f"{base_url.replace('://', f'://{user}:{token}@')}/git/{identity}.git"
