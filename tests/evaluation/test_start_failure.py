from pathlib import Path

from osmosis.evaluation.start_failure import exited_early, port_was_taken

DIRECTORY = Path("/code/rollouts/demo")

TRACEBACK = """Traceback (most recent call last):
  File "/code/rollouts/demo/main.py", line 3, in <module>
    import tools
  File "/code/rollouts/demo/tools.py", line 9, in <module>
    import pandass
ModuleNotFoundError: No module named 'pandass'""".splitlines()


def failure(*lines):
    return exited_early("demo", "main.py", DIRECTORY, "exit code 1", lines)


def test_an_import_error_names_the_module_the_file_and_the_remedy():
    error = failure(*TRACEBACK)
    assert error.kind == "rollout_start_failed"
    assert "rollouts/demo/main.py does not import" in error.message
    assert "No module named 'pandass' (tools.py line 9)" in error.message
    assert "'pandass'" in error.hint and "rollouts/demo/pyproject.toml" in error.hint


def test_a_missing_sdk_is_called_by_the_name_of_its_package():
    error = failure("ModuleNotFoundError: No module named 'osmosis.rollout'")
    assert "'osmosis-platform'" in error.hint


def test_an_error_at_start_is_no_import_error():
    error = failure("Traceback (most recent call last):", "ValueError: no model")
    assert "fails at start (exit code 1): ValueError: no model" in error.message


def test_an_end_without_a_word_says_what_is_expected():
    error = failure()
    assert "ended (exit code 1)" in error.message and "printed nothing" in error.message
    assert "_OSMOSIS_ROLLOUT_PORT" in error.hint


def test_a_taken_port_is_recognised():
    assert port_was_taken(["ERROR: [Errno 98] error while attempting to bind: in use"])
    assert not port_was_taken(TRACEBACK)
