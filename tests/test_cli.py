"""The command: exit codes, one clear line for a mistake, never a traceback."""

import dataclasses
import re
import shlex
import subprocess
import sys

import pytest

import retrax
from retrax import cli
from retrax.experiments import running, storage


def run(capsys, *arguments):
    """(exit code, standard output, standard error) of the command in this process."""
    try:
        code = cli.main(arguments)
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(capsys, *arguments):
    """The one line that a mistake gets."""
    code, output, errors = run(capsys, *arguments)
    assert code == 2
    assert output == ""
    lines = errors.splitlines()
    assert len(lines) == 1, errors
    assert lines[0].startswith("retrax: error: ")
    return lines[0]


@pytest.fixture(autouse=True)
def no_data(monkeypatch, tmp_path):
    monkeypatch.setenv("RETRAX_DATA", str(tmp_path / "nothing"))
    monkeypatch.delenv("RETRAX_CACHE", raising=False)


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"retrax {retrax.__version__}\n", "")


def test_help_names_the_commands(capsys):
    code, output, _ = run(capsys, "--help")
    assert code == 0
    assert all(word in output for word in ("list", "run", "reproduce", "report", "data"))


def test_list_says_what_is_there(capsys, tmp_path):
    (tmp_path / "coil100.npz").write_bytes(b"")
    code, output, _ = run(capsys, "list", "--data", str(tmp_path), "--out", str(tmp_path))
    lines = {line.split()[0]: line for line in output.splitlines()}
    assert code == 0
    assert "synthetic" in lines["pca-syn1"]
    assert "mnist MISSING" in lines["pca-mnist"]
    assert "MISSING" not in lines["ica-coil100"]


def test_list_says_what_is_done(capsys, tmp_path):
    from tests.experiments.conftest import made_result

    storage.write_json(tmp_path / "pca-syn1.json", dataclasses.replace(made_result(), quick=True))
    storage.write_json(tmp_path / "pca-syn2.json", {"format": 1})
    _, output, _ = run(capsys, "list", "--out", str(tmp_path))
    assert re.search(r"pca-syn1 .*done \(quick\)", output)
    assert re.search(r"pca-syn2 .*unreadable", output)


def test_an_unknown_experiment_gets_the_nearest(capsys, tmp_path):
    assert "did you mean pca-syn2" in refused(capsys, "run", "pca-sny2", "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--seeds", "0", "whole number from 1"),
        ("--seeds", "many", "whole number from 1"),
        ("--seeds", "-3", "whole number from 1"),
        ("--seeds", "2.5", "whole number from 1"),
        ("--epochs", "0", "positive number"),
        ("--epochs", "nan", "positive number"),
        ("--epochs", "inf", "positive number"),
        ("--jobs", "0", "whole number from 1"),
        ("--nonsense", "1", "unrecognized arguments"),
        ("--job", "2", "unrecognized arguments"),
    ],
)
def test_bad_options_are_refused(capsys, option, value, said):
    assert said in refused(capsys, "run", "pca-syn1", f"{option}={value}")


def test_no_command_and_no_name_are_refused(capsys):
    assert "COMMAND" in refused(capsys)
    assert "NAME" in refused(capsys, "run")


def test_missing_data_say_what_to_put_where(capsys, tmp_path):
    line = refused(capsys, "run", "pca-mnist", "--data", str(tmp_path), "--out", str(tmp_path / "out"))
    assert "train-images-idx3-ubyte.gz" in line
    assert str(tmp_path) in line
    assert "--data" in line


def test_missing_data_are_found_out_before_anything_runs(capsys, tmp_path):
    refused(capsys, "run", "pca-syn1", "ica-coil100", "--out", str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_an_unwritable_folder_is_refused(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    line = refused(capsys, "run", "pca-syn1", "--out", str(tmp_path / "file" / "out"))
    assert "cannot write" in line
    assert "--out" in line


def test_a_report_of_nothing_says_what_to_do_first(capsys, tmp_path):
    assert "retrax run pca-syn1" in refused(capsys, "report", "--out", str(tmp_path))


def test_a_damaged_data_file_is_a_mistake_not_a_crash(capsys, tmp_path):
    (tmp_path / "covtype.npz").write_bytes(b"not a zip file")
    line = refused(capsys, "run", "pca-covtype", "--data", str(tmp_path), "--out", str(tmp_path / "out"))
    assert "covtype.npz" in line


def test_data_commands_are_there(capsys, tmp_path):
    code, output, _ = run(capsys, "data", "list", "--data", str(tmp_path))
    assert code == 0
    assert "coil100" in output
    assert "unknown data set" in refused(capsys, "data", "fetch", "nonsense")


def test_an_interruption_has_its_own_exit_code(capsys, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_estimate", lambda experiments, run: "about a minute")
    monkeypatch.setattr(running, "run_experiment", interrupt)
    code, _, errors = run(capsys, "run", "pca-syn1", "--out", str(tmp_path))
    assert code == 130
    assert errors == "about a minute\nretrax: interrupted; the same command continues with what is missing\n"


def test_reproduce_says_what_it_skips(capsys, tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(cli, "_carry_out", lambda experiments, args: ran.extend(one.name for one in experiments))
    monkeypatch.setattr(cli, "_report", lambda args: 0)
    code, output, _ = run(capsys, "reproduce", "--out", str(tmp_path))
    assert code == 0
    assert "skipping pca-mnist: no mnist in the data folder" in output
    assert ran == [
        *(
            "pca-syn1",
            "pca-syn2",
            "pca-syn3",
            "pca-syn1-eta",
            "pca-syn1-batch",
            "rc-syn1",
            "table1",
            "transports",
            "untuned",
        )
    ]


def test_the_last_lines_say_what_was_found_and_where(capsys, tmp_path, monkeypatch):
    from tests.experiments.conftest import made_result, made_series

    parts = [made_series("rsrm", [1e-3] * 3), made_series("rsgd", [1e-2] * 3)]
    result = made_result(*parts, claims=("rsrm_best",))
    monkeypatch.setattr(cli, "_estimate", lambda experiments, run: "about a minute")
    monkeypatch.setattr(running, "run_experiment", lambda *arguments: (result, True))
    monkeypatch.setattr(running, "time_experiment", lambda experiment, found, *arguments: (found, False))
    code, output, _ = run(capsys, "run", "pca-syn1", "--out", str(tmp_path))
    assert code == 0
    assert "HOLDS" in output
    assert f"{tmp_path}/figures/pca-syn1.png" in output.splitlines()[-1]
    storage.write_json(tmp_path / "pca-syn1.json", result)
    code, output, _ = run(capsys, "report", "--out", str(tmp_path))
    assert code == 0
    assert "report.html" in output


def test_a_closed_pipe_is_no_crash():
    command = f"{shlex.quote(sys.executable)} -m retrax list | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("pca-syn1")
    assert "Traceback" not in done.stderr


def test_starting_imports_nothing_heavy():
    heavy = "[name for name in ('matplotlib', 'rich', 'torch') if name in sys.modules]"
    script = f"import sys, retrax.cli; retrax.cli._parser(); print({heavy})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
