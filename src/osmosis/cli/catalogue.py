"""The commands by name: what the root help shows, and where each group's code is.

The root help is drawn from this table alone, so that ``osmosis --help`` imports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A group or a single command. ``module`` holds it as ``app``."""

    name: str
    module: str
    summary: str
    commands: tuple[str, ...] = ()


HEADINGS: dict[str, tuple[Entry, ...]] = {
    "Start": (
        Entry("init", "init", "Make a workspace and connect it, so that git push works."),
        Entry("quickstart", "quickstart", "Sign in, choose a workspace, clone it."),
        Entry("doctor", "doctor", "Check the workspace's layout and configs."),
        Entry(
            "server",
            "server",
            "Run the platform on this machine.",
            ("start", "status", "stop", "link", "admin"),
        ),
        Entry(
            "auth",
            "auth",
            "Log in to a platform, log out, show who you are.",
            ("login", "whoami", "logout"),
        ),
        Entry(
            "workspace",
            "workspace",
            "Your workspaces, and the repository each is connected to.",
            ("list", "connect", "sync", "clear-cache"),
        ),
        Entry("upgrade", "upgrade", "Say how this installation is upgraded."),
        Entry("completion", "completion", "Complete command lines in bash, zsh or fish."),
    ),
    "Evaluate": (
        Entry(
            "eval",
            "eval",
            "Submit evaluation runs, follow them, read the results.",
            (
                "submit",
                "watch",
                "wait",
                "list",
                "info",
                "compare",
                "rerun",
                "samples",
                "show",
                "logs",
                "download",
                "export",
                "retry",
                "stop",
                "delete",
                "run",
                "upload",
                "rubric",
            ),
        ),
        Entry("rollout", "rollout", "Make rollouts and list the synced ones.", ("init", "list")),
        Entry(
            "dataset",
            "dataset",
            "Upload datasets and look at them.",
            ("upload", "list", "info", "preview", "download", "validate", "logs", "delete"),
        ),
        Entry(
            "secret", "secret", "Keep keys encrypted on the platform.", ("set", "list", "delete")
        ),
        Entry(
            "model",
            "model",
            "The models that the platform knows, and addresses of your own.",
            ("list", "info", "deploy", "undeploy", "endpoint"),
        ),
        Entry(
            "train",
            "train",
            "Training runs, where the platform trains.",
            ("submit", "list", "info", "logs", "stop"),
        ),
    ),
}

ENTRIES: dict[str, Entry] = {entry.name: entry for group in HEADINGS.values() for entry in group}

GLOBAL_FLAGS = (
    ("--json", "One JSON document on stdout; errors as JSON on stderr."),
    ("--plain", "Plain text without colour, tab-separated lists."),
    ("--platform URL", "The platform to talk to (else OSMOSIS_PLATFORM_URL, else found)."),
    ("--workspace NAME", "The workspace, when you are not inside its directory."),
    ("--env-file PATH", "The .env file to read (else the nearest one upward)."),
    ("-V, --version", "Show the version."),
    ("-h, --help", "Show help, here or after any command."),
)


def root_help() -> str:
    lines = [
        "Usage: osmosis [FLAGS] COMMAND ...",
        "",
        "Evaluate LLM agents from your own git repository.",
    ]
    for heading, entries in HEADINGS.items():
        lines += ["", f"{heading}:"]
        for entry in entries:
            lines.append(f"  {entry.name:<11}{entry.summary}")
            if entry.commands:
                lines.append(f"  {'':<11}{', '.join(entry.commands)}")
    lines += ["", "Flags, anywhere on the line:"]
    lines += [f"  {flag:<18}{meaning}" for flag, meaning in GLOBAL_FLAGS]
    lines += [
        "",
        "A first run, in a second terminal beside `osmosis server start`:",
        "  osmosis init demo && cd demo && git push",
        "  osmosis dataset upload data/multiply.jsonl",
        "  osmosis eval submit configs/eval/multiply-scripted.toml --watch",
    ]
    return "\n".join(lines)
