"""The evaluation config: each field, its default, its bounds and its documentation, once.

``load_eval_config`` reads a TOML file of ``configs/eval``; ``submission_body`` turns a config into
the body of ``POST /api/cli/eval-runs`` and ``config_from_submission`` turns such a body back, so
that command line and platform hold a config to the very same rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from osmosis.wire.errors import Issue, ValidationFailed, near
from osmosis.workspace.advanced import AdvancedSection
from osmosis.workspace.toml_file import line_of, read_toml

MAX_RUNS_PER_ROW = 1000
MAX_BATCH_SIZE = 4096
MAX_SECRET_NAME_CHARS = 255

ENV_NAME = re.compile(r"^[A-Z_][A-Z0-9_]*$")
SECRET_NAME = re.compile(r"^[A-Z][A-Z0-9_]*$")
RESERVED_ENV_PREFIX = "_OSMOSIS_"

_COMMIT_SHA = re.compile(r"^[0-9a-fA-F]{7,40}$")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _refuse(message: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{reason}", {"reason": message})


def _rollout_name(value: str) -> str:
    if value in (".", "..") or "/" in value or "\\" in value or _CONTROL.search(value):
        raise _refuse("must be the name of one directory under rollouts/, without separators")
    return value


def _entrypoint(value: str) -> str:
    parts = value.replace("\\", "/").split("/")
    if value.startswith(("/", "\\", "~")) or ".." in parts or _CONTROL.search(value):
        raise _refuse("must be a file inside the rollout's directory, such as main.py")
    return value


def _dataset_name(value: str) -> str:
    if "/" in value or "\\" in value:
        stem = re.split(r"[/\\]", value.rstrip("/\\"))[-1].rsplit(".", 1)[0]
        raise _refuse(
            f"must be the name of an uploaded dataset, not a path: perhaps '{stem}' "
            "(see `osmosis dataset list`)"
        )
    return value


def _branch(value: str) -> str:
    if re.search(r"\s", value) or _CONTROL.search(value) or value.startswith("-"):
        raise _refuse("must be a branch name, without spaces")
    return value


def _commit(value: str) -> str:
    if not _COMMIT_SHA.fullmatch(value):
        raise _refuse("must be 7 to 40 hexadecimal digits of a commit")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise _refuse("must not be empty")
    if _CONTROL.search(value):
        raise _refuse("must not hold control characters")
    return value


Text = Annotated[str, AfterValidator(_not_blank)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class ExperimentSection(_Section):
    """What is evaluated: which rollout, with which model, on which dataset, at which commit."""

    rollout: Annotated[Text, AfterValidator(_rollout_name)] = Field(
        description="Directory name under `rollouts/`."
    )
    entrypoint: Annotated[Text, AfterValidator(_entrypoint)] = Field(
        description="File inside that directory that starts the rollout server."
    )
    model_path: Text = Field(
        description="The policy: `provider/model`, a named endpoint, `scripted/FILE` or "
        "`replay/RUN`."
    )
    dataset: Annotated[Text, AfterValidator(_dataset_name)] = Field(
        description="Name of an uploaded dataset; not a path."
    )
    branch: Annotated[Text, AfterValidator(_branch)] | None = Field(
        default=None,
        description="Pushed branch to run; excludes `commit_sha`. Else the default branch.",
    )
    commit_sha: Annotated[Text, AfterValidator(_commit)] | None = Field(
        default=None,
        description="Pushed commit to run, 7 to 40 hexadecimal digits; excludes `branch`.",
    )


class EvaluationSection(_Section):
    """How much is evaluated and what counts as passing."""

    limit: int | None = Field(
        default=None,
        ge=1,
        lt=2**63,
        description="The first N rows in order. Absent: a random 10 % of the rows, at least one.",
    )
    n: int = Field(default=1, ge=1, le=MAX_RUNS_PER_ROW, description="Runs of each row.")
    batch_size: int = Field(
        default=1, ge=1, le=MAX_BATCH_SIZE, description="Samples in flight at once, at most."
    )
    pass_threshold: float = Field(
        default=1.0, description="A sample passes when its reward is at least this."
    )
    agent_workflow_timeout_s: float = Field(
        default=450.0, gt=0, description="Time limit of the workflow, per sample."
    )
    grader_timeout_s: float = Field(
        default=150.0, gt=0, description="Time limit of the grader, per sample."
    )


class SecretsSection(_Section):
    """Names of the secrets that the rollout and the model need; never their values."""

    required: list[str] = Field(description="Secret names; `[]` when none is needed.")


class EvalConfig(BaseModel):
    """A valid evaluation config, defaults filled in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    experiment: ExperimentSection
    evaluation: EvaluationSection = Field(default_factory=EvaluationSection)
    advanced: AdvancedSection = Field(default_factory=AdvancedSection)
    env: dict[str, str] = Field(default_factory=dict)
    secrets: SecretsSection = Field(default_factory=lambda: SecretsSection(required=[]))


SECTIONS: dict[str, type[BaseModel] | None] = {
    "experiment": ExperimentSection,
    "evaluation": EvaluationSection,
    "advanced": AdvancedSection,
    "env": None,
    "secrets": SecretsSection,
}

# Sections of other config kinds and of older releases, and where their content belongs now.
_FOREIGN_SECTIONS = {
    "training": "it belongs to a training config under configs/training",
    "sampling": "it belongs to a training config under configs/training",
    "checkpoints": "it belongs to a training config under configs/training",
    "tasks": "it belongs to a benchmark config",
    "agents": "it belongs to a benchmark config",
    "eval": "its keys are now rollout, entrypoint and dataset of [experiment]",
    "llm": "the model is now experiment.model_path",
    "runs": "its keys are now n, batch_size and pass_threshold of [evaluation]",
    "timeouts": "timeouts are now agent_workflow_timeout_s and grader_timeout_s of [evaluation]",
    "rollout": "use [experiment] for the rollout, [env] and [secrets] for its variables",
    "baseline": "a run has one model; submit a second run and compare",
}


def parse_eval_config(data: Mapping[str, Any], *, source: str = "The config") -> EvalConfig:
    """Check everything, then answer with the config or with every mistake at once."""
    return _parse(data, source=source, secrets_needed=True)


def load_eval_config(
    path: Path, *, shown: str | None = None, overrides: Mapping[str, Any] | None = None
) -> EvalConfig:
    """Read and check a TOML config. Mistakes carry their key and line.

    ``overrides`` maps ``section.key`` to a value that replaces what the file says.
    """
    name = shown or str(path)
    data, text = read_toml(path, shown=name)
    for dotted, value in (overrides or {}).items():
        override(data, dotted, value)
    try:
        return parse_eval_config(data, source=name)
    except ValidationFailed as failed:
        for issue in failed.issues:
            if issue.key not in (overrides or {}):
                issue.line = line_of(text, issue.key)
        failed.details.setdefault("file", name)
        raise


def override(data: dict[str, Any], dotted: str, value: Any) -> None:
    """Put a value in place of ``section.key`` of a config that is not parsed yet."""
    section, _, key = dotted.partition(".")
    table = data.setdefault(section, {})
    if not key or not isinstance(table, dict):
        raise ValidationFailed(f"'{dotted}' is not of the form section.key.")
    for one, other in (("branch", "commit_sha"), ("commit_sha", "branch")):
        if dotted == f"experiment.{one}":
            table.pop(other, None)  # they exclude each other; the one given now is meant
    table[key] = value


def submission_body(
    config: EvalConfig, provided: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The body of ``POST /api/cli/eval-runs``: what the config says, no defaults, no empty part."""
    body: dict[str, Any] = {"experiment_config": _said(config.experiment)}
    if evaluation := _said(config.evaluation):
        body["evaluation_config"] = evaluation
    if advanced := _said(config.advanced):
        body["advanced_config"] = advanced
    if config.env:
        body["env_config"] = dict(config.env)
    if config.secrets.required:
        secrets: dict[str, Any] = {"required": list(config.secrets.required)}
        if provided:
            secrets["provided"] = dict(provided)
        body["secrets"] = secrets
    return body


def config_from_submission(body: Mapping[str, Any]) -> EvalConfig:
    """Check a submitted body. Mistakes are named by their TOML keys, as the author knows them."""
    data: dict[str, Any] = {}
    for section in ("experiment", "evaluation", "advanced", "env"):
        if (value := body.get(f"{section}_config")) is not None:
            data[section] = value
    if (secrets := body.get("secrets")) is not None:
        data["secrets"] = (
            {key: value for key, value in secrets.items() if key != "provided"}
            if isinstance(secrets, Mapping)
            else secrets
        )
    return _parse(data, source="The submitted config", secrets_needed=False)


def provided_secrets(body: Mapping[str, Any]) -> dict[str, str]:
    """Values given for this run only. Names must be among the required ones."""
    secrets = body.get("secrets")
    provided = secrets.get("provided") if isinstance(secrets, Mapping) else None
    if provided is None:
        return {}
    required = secrets.get("required") if isinstance(secrets, Mapping) else None
    known = (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )
    issues: list[Issue] = []
    if not isinstance(provided, Mapping):
        issues.append(Issue(key="secrets.provided", message="must be a table of name and value"))
        provided = {}
    for name, value in provided.items():
        key = f"secrets.provided.{name}"
        if name not in known:
            issues.append(Issue(key=key, message="is not among secrets.required"))
        elif not isinstance(value, str) or "\x00" in value:
            issues.append(Issue(key=key, message="must be text"))
    if issues:
        raise ValidationFailed(_headline("The submitted config", issues), issues=issues)
    return {str(name): str(value) for name, value in provided.items()}


def _parse(data: Mapping[str, Any], *, source: str, secrets_needed: bool) -> EvalConfig:
    issues: list[Issue] = []
    for name in data:
        if name not in SECTIONS:
            issues.append(_unknown_section(name, data[name]))
    if "experiment" not in data:
        issues.append(Issue(key="experiment", message="the section [experiment] is required"))
    if secrets_needed and "secrets" not in data:
        issues.append(
            Issue(
                key="secrets",
                message="the section [secrets] is required; `required = []` when none is needed",
            )
        )
    parsed: dict[str, Any] = {}
    for name, model in SECTIONS.items():
        if name not in data:
            continue
        value = data[name]
        if not isinstance(value, Mapping):
            issues.append(Issue(key=name, message=f"must be a section: write [{name}]"))
        elif model is not None:
            parsed[name] = _parse_section(name, model, value, issues)
        else:
            parsed[name] = _parse_env(value, issues)
    _check_rules(parsed, data, issues)
    if issues:
        raise ValidationFailed(_headline(source, issues), issues=issues)
    return EvalConfig(**parsed)


def _parse_section(
    section: str, model: type[BaseModel], value: Mapping[str, Any], issues: list[Issue]
) -> BaseModel | None:
    try:
        return model.model_validate(dict(value), strict=True)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    meant = set()
    for problem in problems:
        if problem["type"] == "extra_forbidden":
            issue = _unknown_key(section, str(problem["loc"][0]), model, value)
            meant.add(issue.key_correction)
            issues.append(issue)
    for problem in problems:
        key = ".".join([section, *map(str, problem["loc"])])
        if problem["type"] == "missing":
            if key not in meant:
                issues.append(Issue(key=key, message="is required"))
        elif problem["type"] != "extra_forbidden":
            issues.append(Issue(key=key, message=_explain(problem)))
    return None


def _parse_env(value: Mapping[str, Any], issues: list[Issue]) -> dict[str, str]:
    for name, text in value.items():
        key = f"env.{name}"
        if not ENV_NAME.fullmatch(name):
            upper = re.sub(r"[^A-Z0-9_]", "_", name.upper())
            correction = f"env.{upper}" if ENV_NAME.fullmatch(upper) else None
            issues.append(
                Issue(
                    key=key,
                    message="a variable name has only A-Z, 0-9 and _, and starts with no digit",
                    key_correction=correction,
                )
            )
        elif name.startswith(RESERVED_ENV_PREFIX):
            issues.append(
                Issue(key=key, message=f"names that start with {RESERVED_ENV_PREFIX} are reserved")
            )
        if not isinstance(text, str):
            message = f'must be text: write {name} = "{_shown(text)}"'
            issues.append(Issue(key=key, message=message))
        elif "\x00" in text:
            issues.append(Issue(key=key, message="must not hold a NUL character"))
    return {name: text for name, text in value.items() if isinstance(text, str)}


def _check_rules(parsed: Mapping[str, Any], data: Mapping[str, Any], issues: list[Issue]) -> None:
    """The rules between keys. They look at the raw data, so that they speak beside other issues."""
    experiment = data.get("experiment")
    if isinstance(experiment, Mapping) and {"branch", "commit_sha"} <= experiment.keys():
        issues.append(
            Issue(
                key="experiment.commit_sha",
                message="excludes experiment.branch; keep one of the two",
            )
        )
    secrets = data.get("secrets")
    required = secrets.get("required") if isinstance(secrets, Mapping) else None
    if not isinstance(required, list):
        return
    env = data.get("env") if isinstance(data.get("env"), Mapping) else {}
    seen: set[str] = set()
    for index, name in enumerate(required):
        if not isinstance(name, str):
            continue  # its type has been reported by the section
        message = _secret_name_problem(name)
        if message is None and name in seen:
            message = "is listed twice"
        if message is None and env and name in env:
            message = "is also in [env]; keep it in one of the two"
        if message:
            issues.append(
                Issue(key="secrets.required", message=f"entry {index + 1}, '{name}': {message}")
            )
        seen.add(name)


def _secret_name_problem(name: str) -> str | None:
    if not SECRET_NAME.fullmatch(name):
        return "a secret name has only A-Z, 0-9 and _, and starts with a letter"
    if len(name) > MAX_SECRET_NAME_CHARS:
        return f"a secret name has at most {MAX_SECRET_NAME_CHARS} characters"
    return None


def check_secret_name(name: str) -> None:
    """Refuse what is not a name of a secret."""
    if problem := _secret_name_problem(name):
        raise ValidationFailed(f"'{name}' is not a secret name: {problem}.", field="name")


def _unknown_section(name: str, value: Any) -> Issue:
    for section, model in SECTIONS.items():
        if model is not None and not isinstance(value, Mapping) and name in model.model_fields:
            return Issue(
                key=name,
                message=f"unknown key outside a section; it belongs under [{section}]",
                key_correction=f"{section}.{name}",
            )
    if name in _FOREIGN_SECTIONS:
        return Issue(key=name, message=f"unrecognized section; {_FOREIGN_SECTIONS[name]}")
    what = "unrecognized section" if isinstance(value, Mapping | list) else "unknown key"
    match = near(name, SECTIONS)
    suggestion = f"; did you mean [{match}]?" if match else f"; known are {_listed(SECTIONS)}"
    return Issue(key=name, message=what + suggestion, key_correction=match)


def _unknown_key(
    section: str, name: str, model: type[BaseModel], value: Mapping[str, Any]
) -> Issue:
    key = f"{section}.{name}"
    candidates = [field for field in model.model_fields if field not in value]
    if match := near(name, candidates):
        return Issue(
            key=key,
            message=f"unknown key; did you mean {section}.{match}?",
            key_correction=f"{section}.{match}",
        )
    for other, other_model in SECTIONS.items():
        if other_model is not None and other != section and name in other_model.model_fields:
            return Issue(
                key=key,
                message=f"unknown key here; it belongs under [{other}]",
                key_correction=f"{other}.{name}",
            )
    return Issue(key=key, message=f"unknown key; [{section}] knows {_listed(model.model_fields)}")


_TYPE_NAMES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "list_type": "a list",
    "bool_type": "true or false",
    "dict_type": "a table",
}


def _explain(problem: Any) -> str:
    """A pydantic error in the words of a config's author."""
    kind, context = problem["type"], problem.get("ctx") or {}
    given = problem.get("input")
    if kind == "rule":
        return context["reason"]
    if kind in _TYPE_NAMES:
        return f"must be {_TYPE_NAMES[kind]}, not {_shown(given)}"
    bounds = {
        "greater_than_equal": ("at least", "ge"),
        "greater_than": ("greater than", "gt"),
        "less_than_equal": ("at most", "le"),
        "less_than": ("less than", "lt"),
    }
    if kind in bounds:
        words, name = bounds[kind]
        return f"must be {words} {context[name]:g}, not {_shown(given)}"
    if kind == "finite_number":
        return f"must be a finite number, not {_shown(given)}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "literal_error":
        return f"must be {context['expected']}, not {_shown(given)}"
    return str(problem["msg"])


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 40 else f'"{value[:37]}..."'
    if isinstance(value, int | float):
        return str(value)
    return {"list": "a list", "dict": "a table"}.get(type(value).__name__, type(value).__name__)


def _said(section: BaseModel) -> dict[str, Any]:
    return section.model_dump(mode="json", exclude_unset=True, exclude_none=True)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _headline(source: str, issues: list[Issue]) -> str:
    count = len(issues)
    return f"{source} has {count} mistake{'s' if count != 1 else ''}."
