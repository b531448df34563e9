"""The rollout process: user code, started from its own environment, watched, and ended.

It leads a process group of its own, sees only what its sandbox shows, has only its declared
variables, and dies with us. It is healthy once ``GET /health`` answers with the instance id that
we gave to this very process (rollout-protocol.md §5).
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from osmosis.evaluation.child_process import SYSTEM_PATH, spawn
from osmosis.evaluation.deadlines import START_S
from osmosis.evaluation.environment import Environment, check_sdk
from osmosis.evaluation.network_door import LAUNCHER, ModelServer, NetworkDoor
from osmosis.evaluation.package_index import certificate_variables
from osmosis.evaluation.plan import EvaluationPlan, Sink
from osmosis.evaluation.process_life import describe_exit, kill_marked, terminate, was_killed
from osmosis.evaluation.redaction import Redactor
from osmosis.evaluation.rollout_output import OUTPUT_STEP, OutputReader
from osmosis.evaluation.sandbox import Sandbox, choose_sandbox, require_network
from osmosis.evaluation.start_failure import exited_early, port_was_taken
from osmosis.processes import ProcessRecord, descendants, kill_tree
from osmosis.rollout.connection_pool import OpenSocket
from osmosis.wire.errors import RunFailed

HEALTH_POLL_S = 0.025
HEALTH_ANSWER_S = 5.0
HEALTH_MAX_BYTES = 2**20

START_ATTEMPTS = 3
"""A free port may be taken by somebody else between our look and the child's bind, and whatever
kills processes from outside may hit one that has not answered yet."""

OUTPUT_END_S = 2.0
"""How long the pipe may stay open after the process is gone."""

KILL_WAIT_S = 5.0
DOOR_S = 30.0
"""For the interpreter to start and to make the sandbox's network reachable."""

INSTANCE_VARIABLE = "_OSMOSIS_ROLLOUT_INSTANCE_ID"

PIPE_BYTES = 2**20
_F_SETPIPE_SZ = 1031


class RolloutProcess:
    """One running rollout. Make it with :meth:`start`; end it with :meth:`stop`."""

    def __init__(
        self,
        plan: EvaluationPlan,
        *,
        sandbox: Sandbox,
        process: asyncio.subprocess.Process,
        reader: OutputReader,
        port: int,
        instance_id: str,
        artifact_root: Path,
        door: NetworkDoor | None,
    ) -> None:
        self._plan = plan
        self._sandbox = sandbox
        self._process = process
        self._reader = reader
        self._instance_id = instance_id
        self.base_url = f"http://127.0.0.1:{port}"
        self.port = port
        self.artifact_root = artifact_root
        self._door = door
        self.open_socket: OpenSocket | None = None if door is None else door.socket
        self._models: asyncio.Server | None = None
        self.health: dict[str, Any] = {}
        self.max_concurrent: int | None = None
        self.exited = asyncio.Event()
        self._record = _record(process.pid, plan.work_dir / "processes")
        self._watch = asyncio.create_task(self._wait_for_exit())

    @classmethod
    async def start(
        cls,
        plan: EvaluationPlan,
        environment: Environment,
        sink: Sink,
        *,
        on_sample_output: Callable[[str, str], None],
        models: ModelServer | None = None,
    ) -> RolloutProcess:
        """Start the entrypoint and wait until it is healthy; RunFailed says why it is not.

        ``models`` answers model calls; in a network of its own a rollout reaches nothing else.
        """
        check_sdk(environment.sdk)
        sandbox = choose_sandbox()
        require_network(plan.advanced.network, sandbox)
        redactor = Redactor(plan.secrets.values())
        attempts = 1 if plan.rollout_port else START_ATTEMPTS
        for attempt in range(1, attempts + 1):
            started = time.monotonic()
            reader = OutputReader(sink, redactor, on_sample_output)
            gateway_port = 0 if models is None else models.port
            rollout = await cls._launch(plan, environment, sandbox, reader, gateway_port)
            try:
                await rollout._let_models_in(models)
                failed = await rollout._wait_until_healthy(last=attempt == attempts)
            except BaseException:
                await asyncio.shield(rollout.stop(grace_s=0))
                raise
            if failed is None:
                seconds = time.monotonic() - started
                fence = sandbox.describe(plan.advanced.network)
                text = f"Rollout healthy after {seconds:.2f} s; sandbox {fence}"
                sink.log("info", OUTPUT_STEP, text)
                return rollout
            await rollout.stop(grace_s=0)
            sink.log("warning", OUTPUT_STEP, f"{failed} It is started again.")
        raise AssertionError("the last attempt raises")

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_description(self) -> str:
        """``exit code 3`` or ``killed by SIGSEGV``; ``running`` while it runs."""
        code = self._process.returncode
        return "running" if code is None else describe_exit(code)

    def last_lines(self) -> list[str]:
        """The last lines it printed, redacted."""
        return list(self._reader.tail)

    async def stop(self, grace_s: float = 5.0) -> None:
        """SIGTERM, then SIGKILL after ``grace_s``, to everything that the process started."""
        if not self.exited.is_set() and grace_s > 0:
            # Not to the programs of the fence: they would take the whole namespace with them.
            terminate(descendants(self.pid, min_depth=self._sandbox.layers))
            try:
                async with asyncio.timeout(grace_s):
                    await self.exited.wait()
            except TimeoutError:
                pass
        if not self.exited.is_set():
            kill_tree(self.pid)
        if self._sandbox.name == "none":
            kill_marked(INSTANCE_VARIABLE, self._instance_id)
        try:
            async with asyncio.timeout(KILL_WAIT_S):
                await self.exited.wait()
                await self._watch
        except TimeoutError:
            self._watch.cancel()

    # --- starting

    @classmethod
    async def _launch(
        cls,
        plan: EvaluationPlan,
        environment: Environment,
        sandbox: Sandbox,
        reader: OutputReader,
        gateway_port: int,
    ) -> RolloutProcess:
        directory = plan.code_dir / "rollouts" / plan.rollout
        scratch = plan.work_dir / "scratch"
        artifact_root = plan.work_dir / "rollout_trials"
        for path in (scratch / "home", scratch / "tmp", artifact_root):
            path.mkdir(parents=True, exist_ok=True)
        port = plan.rollout_port or _free_port()
        instance_id = secrets.token_hex(16)
        certificates = certificate_variables()
        variables = {
            "PATH": f"{environment.bin}:{SYSTEM_PATH}",
            "HOME": str(scratch / "home"),
            "TMPDIR": str(scratch / "tmp"),
            "LANG": "C.UTF-8",
            "VIRTUAL_ENV": str(environment.directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            **certificates,
            **plan.env,
            **plan.secrets,
            "PYTHONUNBUFFERED": "1",
            "_OSMOSIS_ROLLOUT_PORT": str(port),
            "_OSMOSIS_ROLLOUT_ARTIFACT_ROOT": str(artifact_root),
            INSTANCE_VARIABLE: instance_id,
            "_OSMOSIS_ROLLOUT_TAG_OUTPUT": "1",
        }
        paths = [str(path) for path in (directory, directory / "src") if path.is_dir()]
        paths += [variables["PYTHONPATH"]] if variables.get("PYTHONPATH") else []
        variables["PYTHONPATH"] = os.pathsep.join(paths)
        argv = [str(environment.python), str(directory / plan.entrypoint)]
        door = NetworkDoor() if plan.advanced.network == "loopback" else None
        if door is not None:
            argv = door.launched(environment.python, gateway_port, argv)
        read_end, write_end = os.pipe()
        _widen(write_end)
        try:
            process = await spawn(
                sandbox,
                argv,
                env=variables,
                cwd=directory,
                readable=[
                    plan.code_dir,
                    environment.directory,
                    environment.python_prefix,
                    *([] if door is None else [LAUNCHER]),
                    *(Path(part) for value in certificates.values() for part in value.split(":")),
                ],
                writable=[scratch, artifact_root],
                hidden=[*plan.private_dirs, *_private_of_workspace(plan.code_dir)],
                network=plan.advanced.network,
                pass_fds=() if door is None else (door.inner,),
                stdout=write_end,
                stderr=write_end,
            )
        except BaseException as error:
            os.close(read_end)
            if door is not None:
                door.close()
            if isinstance(error, OSError):
                raise RunFailed(
                    "rollout_start_failed", f"The rollout process could not be started: {error}."
                ) from None
            raise
        finally:
            os.close(write_end)
        if door is not None:
            door.given()
        pipe = os.fdopen(read_end, "rb", 0)
        await asyncio.get_running_loop().connect_read_pipe(lambda: reader, pipe)
        return cls(
            plan,
            sandbox=sandbox,
            process=process,
            reader=reader,
            port=port,
            instance_id=instance_id,
            artifact_root=artifact_root,
            door=door,
        )

    async def _let_models_in(self, models: ModelServer | None) -> None:
        """Have model calls answered inside the rollout's own network, if it has one."""
        if self._door is None:
            return
        try:
            async with asyncio.timeout(DOOR_S):
                listener = await self._door.listener()
        except (OSError, TimeoutError) as error:
            with suppress(TimeoutError):
                async with asyncio.timeout(KILL_WAIT_S):
                    await self.exited.wait()  # its end is told by those who wait for its health
                    return
            raise RunFailed(
                "rollout_start_failed",
                f"The rollout's own network could not be made ({error or 'it took too long'}).",
                hint='Set network = "on" in [advanced] to run it with the machine\'s network.',
            ) from None
        if models is None:
            listener.close()
        else:
            self._models = await models.serve_on(listener)

    async def _wait_until_healthy(self, *, last: bool) -> str | None:
        """None once it is; else why it is worth another start, in a sentence."""
        deadline = time.monotonic() + START_S
        problem = "nothing listens on the port"
        while True:
            if self._process.returncode is not None or self.exited.is_set():
                await self.exited.wait()
                if not last and port_was_taken(self.last_lines()):
                    return f"Port {self.port} was taken."
                failed = exited_early(
                    self._plan.rollout,
                    self._plan.entrypoint,
                    self._plan.code_dir / "rollouts" / self._plan.rollout,
                    self.exit_description(),
                    self.last_lines(),
                )
                if not last and was_killed(self._process.returncode):
                    return failed.message
                raise failed
            answer = await self._health_or_exit()
            if isinstance(answer, dict):
                if answer.get("instance_id") == self._instance_id:
                    self.health = answer
                    self.max_concurrent = advertised_capacity(answer)
                    return None
                if answer.get("instance_id"):
                    if not last:
                        return f"Another process answers on port {self.port}."
                    raise RunFailed(
                        "rollout_start_failed",
                        f"Another process answers on the port of rollouts/{self._plan.rollout}: "
                        "its /health gives another instance_id.",
                        hint="Bind the port in _OSMOSIS_ROLLOUT_PORT and leave "
                        f"{INSTANCE_VARIABLE} as it is.",
                    )
                problem = (
                    "/health answers without `instance_id`; is the app made by "
                    "create_rollout_server?"
                )
            elif answer:
                problem = answer
            if time.monotonic() >= deadline:
                raise RunFailed(
                    "rollout_unhealthy",
                    f"rollouts/{self._plan.rollout}/{self._plan.entrypoint} runs, but was not "
                    f"healthy after {START_S:.0f} s: {problem}.",
                    hint="Serve create_rollout_server(...) on 127.0.0.1 at the port in "
                    "_OSMOSIS_ROLLOUT_PORT; do slow work in the workflow, not at import.",
                    details={"output": "\n".join(self.last_lines())},
                )
            try:
                async with asyncio.timeout(HEALTH_POLL_S):
                    await self.exited.wait()
            except TimeoutError:
                pass

    async def _health_or_exit(self) -> dict[str, Any] | str | None:
        """An answer may take long; the end of the process does not wait for it."""
        asking = asyncio.create_task(_get_health(self.port, self.open_socket))
        ending = asyncio.create_task(self.exited.wait())
        try:
            await asyncio.wait({asking, ending}, return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            asking.cancel()
            ending.cancel()

    async def _wait_for_exit(self) -> None:
        await self._process.wait()
        # What is left of the group holds the pipe open and must not outlive its leader.
        kill_tree(self.pid)
        try:
            async with asyncio.timeout(OUTPUT_END_S):
                await self._reader.closed.wait()
        except TimeoutError:
            pass
        if self._record is not None:
            self._record.unlink(missing_ok=True)
        if self._models is not None:
            self._models.close()
        if self._door is not None:
            self._door.close()
        self.exited.set()


def advertised_capacity(health: dict[str, Any]) -> int | None:
    """How many rollouts the server takes at once; None when it does not say."""
    concurrency = health.get("concurrency")
    inner = concurrency.get("max_concurrent") if isinstance(concurrency, dict) else None
    for value in (health.get("max_queue_depth"), inner):
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


async def _get_health(port: int, open_socket: OpenSocket | None) -> dict[str, Any] | str | None:
    """The body, or what is wrong with the answer; None when nothing listens yet.

    Plain sockets: a client library would cost more than the rollout takes to start.
    """
    try:
        async with asyncio.timeout(HEALTH_ANSWER_S):
            reader, writer = await _connected(port, open_socket)
            try:
                writer.write(
                    b"GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n"
                )
                raw = await reader.read(HEALTH_MAX_BYTES)
                while raw and not reader.at_eof() and len(raw) < HEALTH_MAX_BYTES:
                    raw += await reader.read(HEALTH_MAX_BYTES)
            finally:
                writer.close()
    except TimeoutError:
        return f"/health did not answer within {HEALTH_ANSWER_S:.0f} s"
    except ConnectionRefusedError:
        return None
    except OSError as error:
        return f"/health broke off ({error})"
    head, _, body = raw.partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if not status or not status[0].isdigit():
        return "the port does not speak HTTP"
    if int(status[0]) >= 400:
        return f"/health answers {int(status[0])}"
    try:
        answer = json.loads(body)
    except ValueError:
        return "/health does not answer with JSON"
    return answer if isinstance(answer, dict) else "/health does not answer with a JSON object"


async def _connected(
    port: int, open_socket: OpenSocket | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if open_socket is None:
        return await asyncio.open_connection("127.0.0.1", port)
    made = await open_socket()
    try:
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        return await asyncio.open_connection(sock=made)
    except BaseException:
        made.close()
        raise


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _widen(pipe: int) -> None:
    """A larger pipe: fewer switches while a rollout prints much."""
    if sys.platform == "linux":
        with suppress(OSError):
            fcntl.fcntl(pipe, _F_SETPIPE_SZ, PIPE_BYTES)


def _record(pid: int, directory: Path) -> Path | None:
    """For the reaper of a later life; None when the process is gone already."""
    try:
        return ProcessRecord.of(pid, "rollout").save(directory)
    except ProcessLookupError:
        return None


def _private_of_workspace(code_dir: Path) -> list[Path]:
    """In a user's own checkout: local state, git's credentials, values of undeclared secrets."""
    found = [code_dir / ".git", code_dir / ".osmosis"]
    found += [path for path in code_dir.glob(".env*") if path.name != ".env.example"]
    return [path for path in found if path.exists()]
