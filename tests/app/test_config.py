"""The configuration that the user names: what it may say, what is refused, and what judges are made with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faircount.app import Models
from faircount.config import Config, read_config, setting_of
from faircount.core import UsageError
from faircount.judges import make_judge

WHOLE = """
[judges]
strict-refusal = 'threshold(refusal, at=0.8)'
mine = './mine.py:Judge'

[prices."my-model"]
prompt = 1.0
completion = 2

[chat]
base_url = "http://localhost:8000/v1"
model = "my-model"
api_key_env = "MY_KEY"
timeout = 30
parameters = { temperature = 0, max_tokens = 100 }
"""


@pytest.fixture
def config(tmp_path: Path) -> Any:
    def write(text: str | bytes) -> str:
        path = tmp_path / "faircount.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write


def test_a_configuration_has_judges_prices_and_a_model(config: Any) -> None:
    read = read_config(config(WHOLE))
    assert read.judges == {"strict-refusal": "threshold(refusal, at=0.8)", "mine": "./mine.py:Judge"}
    assert read.prices == {"my-model": {"prompt": 1.0, "completion": 2}}
    assert read.chat["parameters"] == {"temperature": 0, "max_tokens": 100}
    assert read_config(config("")) == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[judge]\na = 'refusal'", ": judge: no such key; did you mean judges?"),
        ("cache = 'x'", ": cache: no such key; available: judges, prices, chat"),
        ("judges = 3", ": judges must be a table: [judges]"),
        ("[judges]\nrefusal = 'canary'", ": judges.refusal: is the name of a built-in judge; choose another"),
        ("[judges]\n'a b' = 'canary'", ": judges.a b: use letters, digits"),
        ("[judges]\na = 3", ": judges.a: must be a string, such as"),
        ("[judges]\na = 'refusal('", ": judges.a: the judge cannot be parsed at character 9"),
        (
            "[prices.m]\nprompt = 1\ncompletions = 2",
            ': completions: no such key in [prices."m"]; did you mean completion?',
        ),
        ("[prices.m]\nprompt = 1", ': prices: the price of "m" needs completion'),
        ("[prices]\nm = 1", ': prices."m" must be a table'),
        ("[chat]\nmodle = 'x'", ": modle: no such key in [chat]; did you mean model?"),
        ("[chat]\nprices = {}", ": prices: no such key in [chat]"),
        ("[chat]\ntimeout = 'long'", ": chat.timeout: Expected `float`, got `str`"),
        ("[chat]\ntries = 0", ": chat: tries must be 1 or more"),
        ("[chat]\napi_key = 'abc'", ": chat.api_key: do not put secrets in a file; set an environment variable"),
        ("[chat.parameters]\napi-key = 'abc'", ": chat.parameters.api-key: do not put secrets in a file"),
        ("[chat]\ntoken = 'abc'", ": chat.token: do not put secrets in a file"),
        (
            "[chat]\napi_key_env = 'sk-abcdefghijklmnopqrst'",
            ": chat.api_key_env: looks like a secret; put it in an environment",
        ),
        (
            "[chat]\napi_key_env = 'a key'",
            ": chat.api_key_env: must be the name of an environment variable, not the key itself",
        ),
        ("[chat]\nbase_url = 'http://me:word@host/v1'", ": chat: base_url contains a user name or password"),
        ("[chat]\nmodel = \ntries = 1", ":2: invalid TOML: Invalid value, at column 9"),
        (b"\n\n[chat]\nmodel = '\xff'", ":4: not UTF-8"),
        ("x = " + "[" * 5000, ": "),
    ],
)
def test_what_is_not_understood_is_refused_with_its_key(config: Any, text: str | bytes, message: str) -> None:
    path = config(text)
    with pytest.raises(UsageError) as caught:
        read_config(path)
    assert str(caught.value).startswith(path + message)
    assert "abcdefghijklmnopqrst" not in str(caught.value)


def test_a_judge_may_be_a_table(config: Any) -> None:
    tables = """
    [judges]
    strict = { name = "threshold", judge = "refusal", at = 0.8 }
    [judges.word]
    name = "contains"
    text = ['BYP"ASSED', "two\\nlines"]
    [judges.both]
    name = "all"
    judges = ["strict", { name = "not", judge = { name = "word" } }]
    """
    path = config(tables)
    assert read_config(path).judges["strict"] == "threshold(refusal, at=0.8)"
    setting = setting_of(Models(config=path))
    assert make_judge("both", setting).called == (
        "combine.AllOf(combine.Threshold(refusal.Refusal, at=0.8), "
        'combine.Not(strings.Contains(text=["BYP\\"ASSED", "two\\nlines"])))'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = {at = 0.8}", ": judges.a: the table needs a name, such as"),
        ("a = {name = ''}", ": judges.a: the table needs a name, such as"),
        ("a = {name = 'not', judge = 3}", ": judges.a: must be a string or a table with a name, such as"),
        ("a = {name = 'llm', api_key = 'abc'}", ": judges.a.api_key: do not put secrets in a file"),
    ],
)
def test_a_table_that_names_no_judge_is_refused(config: Any, text: str, message: str) -> None:
    path = config(f"[judges]\n{text}")
    with pytest.raises(UsageError) as caught:
        read_config(path)
    assert str(caught.value).startswith(path + message)


def test_a_configuration_that_cannot_be_read_is_said(config: Any, tmp_path: Path) -> None:
    for path, message in ((tmp_path / "none.toml", "no such file"), (tmp_path, "cannot be read")):
        with pytest.raises(UsageError, match=message):
            read_config(str(path))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        read_config(config("#" * (1024 * 1024 + 1)))


def test_options_go_before_the_configuration(config: Any) -> None:
    path = config(WHOLE)
    setting = setting_of(Models(config=path, model="other"), 3)
    assert setting.chat is not None
    assert (setting.chat.model, setting.chat.base_url) == ("other", "http://localhost:8000/v1")
    assert (setting.chat.api_key_env, setting.chat.timeout, setting.chat.concurrency) == ("MY_KEY", 30, 3)
    assert setting.chat.prices == {"my-model": {"prompt": 1.0, "completion": 2}}
    assert make_judge("strict-refusal", setting).called == "combine.Threshold(refusal.Refusal, at=0.8)"


def test_without_a_configuration_there_are_no_named_judges() -> None:
    setting = setting_of(Models())
    assert setting.named == {} and setting.local_code
    assert setting.chat is not None and setting.chat.model == ""


def test_no_configuration_is_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("faircount.toml", ".faircount.toml", "config.toml", "pyproject.toml"):
        (tmp_path / name).write_text("[judges]\nmine = 'refusal'\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="mine: no such judge"):
        make_judge("mine", setting_of(Models()))
