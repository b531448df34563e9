from __future__ import annotations

import math
from pathlib import Path
from typing import Any, get_args

import pytest

from osmosis.wire.errors import Issue, NotFound, ValidationFailed
from osmosis.workspace.advanced import AdvancedSection
from osmosis.workspace.advanced_keys import ADVANCED_KEYS, LIMITS, TUNING
from osmosis.workspace.config import (
    EvalConfig,
    check_secret_name,
    config_from_submission,
    load_eval_config,
    parse_eval_config,
    provided_secrets,
    submission_body,
)

EXPERIMENT = {
    "rollout": "multiply",
    "entrypoint": "main.py",
    "model_path": "openai/gpt-5-mini",
    "dataset": "multiply",
}


def config(**sections: Any) -> EvalConfig:
    return parse_eval_config({"experiment": EXPERIMENT, "secrets": {"required": []}, **sections})


def issues_of(data: dict[str, Any]) -> dict[str, Issue]:
    with pytest.raises(ValidationFailed) as failed:
        parse_eval_config(data)
    return {issue.key: issue for issue in failed.value.issues}


def issue_in(section: str, **values: Any) -> Issue:
    base = {"experiment": EXPERIMENT, "secrets": {"required": []}}
    merged = {**EXPERIMENT, **values} if section == "experiment" else values
    found = issues_of({**base, section: merged})
    assert len(found) == 1, found
    return next(iter(found.values()))


def test_defaults_are_the_documented_ones():
    evaluation = config().evaluation
    assert evaluation.limit is None
    assert (evaluation.n, evaluation.batch_size) == (1, 1)
    assert evaluation.pass_threshold == 1.0
    assert evaluation.agent_workflow_timeout_s == 450
    assert evaluation.grader_timeout_s == 150


def test_all_mistakes_are_reported_at_once():
    found = issues_of(
        {
            "experiment": {"rollout": "a/b", "model_path": ""},
            "evaluation": {"batchsize": 3, "limit": 0},
            "env": {"lower": "x"},
            "surprise": {},
        }
    )
    assert set(found) == {
        "experiment.rollout",
        "experiment.entrypoint",
        "experiment.model_path",
        "experiment.dataset",
        "evaluation.batchsize",
        "evaluation.limit",
        "env.lower",
        "surprise",
        "secrets",
    }


def test_a_mistyped_key_is_answered_with_the_near_one():
    issue = issue_in("evaluation", batchsize=3)
    assert issue.key_correction == "evaluation.batch_size"


def test_a_mistyped_required_key_is_one_mistake_not_two():
    experiment = {**EXPERIMENT, "datset": "x"}
    del experiment["dataset"]
    found = issues_of({"experiment": experiment, "secrets": {"required": []}})
    assert list(found) == ["experiment.datset"]


def test_a_key_in_the_wrong_section_is_sent_to_the_right_one():
    assert issue_in("experiment", limit=5).key_correction == "evaluation.limit"


def test_a_mistyped_section_is_answered_with_the_near_one():
    assert issue_in("evaluaton", limit=1).key_correction == "evaluation"


def test_a_section_of_an_older_release_says_what_it_is_now():
    assert "experiment.model_path" in issue_in("llm", model="x").message


@pytest.mark.parametrize("value", [True, 1.0, "3", 0, -1])
def test_limit_is_a_positive_whole_number(value: Any):
    assert issue_in("evaluation", limit=value).key == "evaluation.limit"


@pytest.mark.parametrize("value", [0, 1001, True, "2", 1.5])
def test_n_is_bounded(value: Any):
    assert issue_in("evaluation", n=value).key == "evaluation.n"


@pytest.mark.parametrize("value", [0, 4097])
def test_batch_size_is_bounded(value: int):
    assert issue_in("evaluation", batch_size=value).key == "evaluation.batch_size"


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "1"])
def test_pass_threshold_is_a_finite_number(value: Any):
    assert issue_in("evaluation", pass_threshold=value).key == "evaluation.pass_threshold"


def test_a_pass_threshold_of_zero_or_below_is_legal():
    assert config(evaluation={"pass_threshold": 0}).evaluation.pass_threshold == 0
    assert config(evaluation={"pass_threshold": -1.5}).evaluation.pass_threshold == -1.5


@pytest.mark.parametrize("key", ["agent_workflow_timeout_s", "grader_timeout_s"])
@pytest.mark.parametrize("value", [0, -1, math.inf, True])
def test_timeouts_are_positive_and_finite(key: str, value: Any):
    assert issue_in("evaluation", **{key: value}).key == f"evaluation.{key}"


@pytest.mark.parametrize("value", ["", "  ", ".", "..", "a/b", "a\\b", "/abs", "a\nb"])
def test_a_rollout_is_one_path_segment(value: str):
    assert issue_in("experiment", rollout=value).key == "experiment.rollout"


@pytest.mark.parametrize("value", ["", "/main.py", "../main.py", "a/../../b.py", "~/x.py"])
def test_an_entrypoint_stays_inside_its_rollout(value: str):
    assert issue_in("experiment", entrypoint=value).key == "experiment.entrypoint"


def test_an_entrypoint_may_lie_in_a_subdirectory():
    assert config(experiment={**EXPERIMENT, "entrypoint": "src/main.py"})


def test_a_dataset_path_is_refused_with_the_likely_name():
    assert "'multiply'" in issue_in("experiment", dataset="data/multiply.jsonl").message


@pytest.mark.parametrize("value", ["abc123", "g" * 8, "a" * 41, "abcdef1\n"])
def test_a_commit_is_7_to_40_hex_digits(value: str):
    assert issue_in("experiment", commit_sha=value).key == "experiment.commit_sha"


@pytest.mark.parametrize("value", ["", "a b", "-x", "a\tb"])
def test_a_branch_has_no_whitespace(value: str):
    assert issue_in("experiment", branch=value).key == "experiment.branch"


def test_branch_and_commit_exclude_each_other():
    issue = issue_in("experiment", branch="main", commit_sha="abcdef1")
    assert issue.key == "experiment.commit_sha"


@pytest.mark.parametrize("name", ["lower", "1A", "A-B", "_OSMOSIS_X"])
def test_env_names_follow_the_rule(name: str):
    assert issue_in("env", **{name: "x"}).key == f"env.{name}"


def test_env_values_are_text():
    assert issue_in("env", PORT=80).message == 'must be text: write PORT = "80"'


def test_the_secrets_section_is_required():
    assert list(issues_of({"experiment": EXPERIMENT})) == ["secrets"]


@pytest.mark.parametrize("names", [["lower"], ["A", "A"], ["A" * 256], ["_A"], [3], "A"])
def test_secret_names_follow_the_rule(names: Any):
    assert issue_in("secrets", required=names).key.startswith("secrets.required")


def test_no_name_is_both_secret_and_env():
    data = {"experiment": EXPERIMENT, "env": {"A": "x"}, "secrets": {"required": ["A"]}}
    assert list(issues_of(data)) == ["secrets.required"]


def test_advanced_keys_are_typed_and_bounded():
    assert config(advanced={"temperature": 0, "sample_seed": 7}).advanced.sample_seed == 7
    assert issue_in("advanced", temperature=3).key == "advanced.temperature"
    assert issue_in("advanced", temprature=1).key_correction == "advanced.temperature"


def test_a_submission_says_what_the_config_says_and_no_defaults():
    body = submission_body(config(evaluation={"limit": 3}, env={"A": "b"}))
    assert body == {
        "experiment_config": EXPERIMENT,
        "evaluation_config": {"limit": 3},
        "env_config": {"A": "b"},
    }


def test_a_submission_comes_back_as_the_same_config():
    given = config(
        evaluation={"n": 2, "pass_threshold": 0.5},
        advanced={"top_p": 0.9},
        env={"A": "b"},
        secrets={"required": ["KEY"]},
    )
    body = submission_body(given, {"KEY": "value"})
    assert config_from_submission(body) == given
    assert provided_secrets(body) == {"KEY": "value"}


def test_a_submission_needs_no_secrets():
    assert config_from_submission({"experiment_config": EXPERIMENT}).secrets.required == []


def test_a_wrong_submission_is_named_by_its_toml_keys():
    with pytest.raises(ValidationFailed) as failed:
        config_from_submission(
            {"experiment_config": EXPERIMENT, "evaluation_config": {"limit": "20"}}
        )
    assert [issue.key for issue in failed.value.issues] == ["evaluation.limit"]


@pytest.mark.parametrize("body", [{}, {"experiment_config": []}, {"experiment_config": None}])
def test_a_submission_without_an_experiment_is_refused(body: dict[str, Any]):
    with pytest.raises(ValidationFailed):
        config_from_submission(body)


@pytest.mark.parametrize("provided", [{"OTHER": "x"}, {"KEY": 3}, {"KEY": "a\x00"}, ["KEY"]])
def test_provided_values_belong_to_required_names_and_are_text(provided: Any):
    with pytest.raises(ValidationFailed) as failed:
        provided_secrets({"secrets": {"required": ["KEY"], "provided": provided}})
    assert "canary" not in str(failed.value.body())


def test_a_refused_provided_value_is_not_repeated():
    with pytest.raises(ValidationFailed) as failed:
        provided_secrets({"secrets": {"required": [], "provided": {"KEY": "canary"}}})
    assert "canary" not in str(failed.value.body())


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "eval.toml"
    path.write_text(text)
    return path


def test_a_syntax_error_names_file_line_and_column(tmp_path: Path):
    path = write(tmp_path, '[experiment]\nrollout = "x"\nlimit = = 3\n')
    with pytest.raises(ValidationFailed) as failed:
        load_eval_config(path, shown="configs/eval/eval.toml")
    assert failed.value.message.startswith("configs/eval/eval.toml, line 3, column 9: ")
    assert failed.value.details == {"file": "configs/eval/eval.toml", "line": 3, "column": 9}


def test_an_unfinished_file_is_a_syntax_error_at_its_end(tmp_path: Path):
    with pytest.raises(ValidationFailed) as failed:
        load_eval_config(write(tmp_path, '[experiment]\nrollout = "x'))
    assert failed.value.details["line"] == 2


def test_a_file_that_is_not_utf8_names_the_line(tmp_path: Path):
    path = tmp_path / "eval.toml"
    path.write_bytes(b"[experiment]\nrollout = '\xff'\n")
    with pytest.raises(ValidationFailed, match="line 2: not UTF-8"):
        load_eval_config(path)


def test_a_missing_file_is_not_found(tmp_path: Path):
    with pytest.raises(NotFound):
        load_eval_config(tmp_path / "none.toml")


def test_mistakes_carry_the_line_of_their_key(tmp_path: Path):
    text = (
        "[experiment]\n"
        + "\n".join(f'{key} = "{value}"' for key, value in EXPERIMENT.items())
        + "\n\n[evaluation]\n# how many\nbatchsize = 3\n\n[secrets]\nrequired = []\n"
    )
    with pytest.raises(ValidationFailed) as failed:
        load_eval_config(write(tmp_path, text))
    assert [(i.key, i.line) for i in failed.value.issues] == [("evaluation.batchsize", 9)]


def test_flags_replace_keys_and_a_commit_replaces_a_branch(tmp_path: Path):
    text = "[experiment]\nbranch = 'dev'\n"
    text += "\n".join(f'{key} = "{value}"' for key, value in EXPERIMENT.items())
    text += "\n[secrets]\nrequired = []\n"
    overrides = {"experiment.commit_sha": "abcdef1", "evaluation.limit": 3}
    loaded = load_eval_config(write(tmp_path, text), overrides=overrides)
    assert (loaded.experiment.branch, loaded.experiment.commit_sha) == (None, "abcdef1")
    assert loaded.evaluation.limit == 3


@pytest.mark.parametrize("name", ["a", "1A", "A B", "A" * 256, "A\n"])
def test_other_names_are_no_secret_names(name: str):
    with pytest.raises(ValidationFailed):
        check_secret_name(name)


def test_a_mistake_given_as_a_flag_names_no_line_of_the_file(tmp_path: Path):
    text = "[experiment]\n"
    text += "\n".join(f'{key} = "{value}"' for key, value in EXPERIMENT.items())
    text += "\n[evaluation]\nlimit = 3\nn = 0\n[secrets]\nrequired = []\n"
    with pytest.raises(ValidationFailed) as caught:
        load_eval_config(write(tmp_path, text), overrides={"evaluation.limit": 0})
    lines = {issue.key: issue.line for issue in caught.value.issues}
    assert lines["evaluation.limit"] is None and lines["evaluation.n"] is not None


def test_the_table_of_advanced_keys_is_complete_and_says_their_types():
    fields = AdvancedSection.model_fields
    assert set(ADVANCED_KEYS) == set(fields)
    for name, key in ADVANCED_KEYS.items():
        assert key.flag.startswith("--")
        assert fields[name].description == key.meaning
        allowed = get_args(fields[name].annotation) or (fields[name].annotation,)
        assert key.kind in allowed or isinstance(allowed[0], key.kind), name
    assert set(LIMITS) <= TUNING


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_cost_usd": 0},
        {"max_cost_usd": float("nan")},
        {"max_total_tokens": 0},
        {"max_total_tokens": 1.5},
        {"max_retry_s": -1},
        {"max_retries": 21},
        {"max_tokens": 10**9},
        {"max_concurrent_calls": 0},
    ],
)
def test_budgets_and_limits_have_bounds(wrong):
    (name,) = wrong
    assert issue_in("advanced", **wrong).key == f"advanced.{name}"
