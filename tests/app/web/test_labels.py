"""Labels on the page: who may send them, what is shown and what is not, and what is in the file afterwards."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest

from faircount.analysis import LabelWriter
from tests.app.web.conftest import ACCESS, COOKIE, TOKEN, Answer, Client, guarded, runs_of
from tests.conftest import Cli, Write, attack, standard

ORIGIN = "http://127.0.0.1:8000"
FORMS = ("/label/start", "/label/answer", "/label/undo", "/label/decide")


class Person:
    """Somebody with a browser, who fills in forms as the page gives them."""

    def __init__(self, page: Page, name: str) -> None:
        self.name = name
        self.client = Client(page.app, cookie=f"{COOKIE}; faircount-author={name}")
        self.seen = self.client.get("/label?below=5")

    def look(self, address: str = "/label?below=5") -> str:
        self.seen = self.client.get(address)
        return self.seen.text

    def send(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> Answer:
        given = {
            "origin": ORIGIN,
            "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded",
            **(headers or {}),
        }
        body = urlencode({"form": ACCESS.form_token, "below": "5", **fields}).encode()
        given = {name: value for name, value in given.items() if value}
        return self.client.get(path, {**given, "content-length": str(len(body))}, "POST", body)

    def start(self) -> None:
        answer = self.send("/label/start", author=self.name)
        assert answer.status == 303
        self.look()

    def say(self, label: str, note: str = "") -> Answer:
        """Press a button of the form that is shown."""
        fields = dict(re.findall(r'<input type="hidden" name="(draw|at)" value="(\d+)"', self.seen.text))
        answer = self.send("/label/answer", label=label, note=note, **fields)
        self.look(answer.headers.get("location", "/label"))
        return answer


class Page(NamedTuple):
    """A page that labels can be given on."""

    app: Any
    path: Path
    runs: Any
    writer: LabelWriter

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    @property
    def labels(self) -> list[tuple[str, str, str]]:
        return [(one["author"], one["id"], one["label"]) for one in self.records if one["kind"] == "label"]


def rows() -> list[dict[str, Any]]:
    return [
        standard(
            n,
            success=n <= 10,
            input=f"prompt {n}",
            response=f"answer {n}",
            judge_name="the-judge",
            judge_args=f"answer {n}",
            judge_reason="because of this",
            target="bot-of-ours",
        )
        for n in range(1, 41)
    ]


@pytest.fixture
def page(write: Write, tmp_path: Path) -> Iterator[Page]:
    path = tmp_path / "labels.jsonl"
    with runs_of(write(rows(), "results_a-bot_data_1790000000.jsonl")) as found:
        writer = LabelWriter(str(path))
        yield Page(guarded(found, labels=writer), path, found, writer)
        writer.close()


@pytest.fixture
def anna(page: Page) -> Person:
    return Person(page, "anna")


# -- who may send ---------------------------------------------------------------------------------------------------


def test_without_a_file_of_labels_the_page_only_reads(client: Client) -> None:
    assert client.get("/label").status == 404
    for path in FORMS:
        refused = client.get(path, {"origin": ORIGIN, "content-length": "0"}, "POST", b"x=1")
        assert refused.status == 405
        assert refused.text == "This page only reads.\n"


@pytest.mark.parametrize("path", FORMS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": ""}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://attacker.invalid"}, 403),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": "https://127.0.0.1:8000"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"host": "attacker.invalid:8000"}, 421),
        ({"cookie": "faircount-author=anna"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "application/json"}, 415),
    ],
)
def test_another_site_cannot_send_a_form(
    path: str, headers: dict[str, str], status: int, page: Page, anna: Person
) -> None:
    refused = anna.send(path, headers, author="anna", label="hit", draw="1", at="0")
    assert refused.status == status
    assert "default-src 'none'" in refused.headers["content-security-policy"]
    assert not page.path.exists()


@pytest.mark.parametrize("token", ["", "wrong", TOKEN])
def test_a_form_needs_the_token_of_the_page(token: str, page: Page, anna: Person) -> None:
    assert anna.send("/label/start", author="anna", form=token).status == 403
    assert not page.path.exists()


def test_the_token_of_forms_is_neither_that_of_the_page_nor_the_same_for_every_start() -> None:
    other = type(ACCESS)("127.0.0.1", 8000, "another-token-of-the-tests")
    assert ACCESS.form_token not in (TOKEN, other.form_token)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_a_form_changes_anything(method: str, page: Page, anna: Person) -> None:
    for path in FORMS:
        answer = anna.client.get(f"{path}?form={ACCESS.form_token}&author=anna", {"origin": ORIGIN}, method)
        assert answer.status == 405
    for path in ("/label", "/", "/label/rates", "/label/undecided"):
        status = anna.client.get(path, {"origin": ORIGIN}, "POST", b"x").status
        assert status == 405
    assert not page.path.exists()


def test_looking_writes_nothing(page: Page, anna: Person) -> None:
    for path in ("/label", "/label?below=5&run=x", "/label/rates", "/label/undecided"):
        assert anna.client.get(path).status == 200
    assert not page.path.exists()
    anna.start()
    before = page.path.read_bytes()
    for _ in range(3):
        anna.look()
    assert page.path.read_bytes() == before


def test_a_form_that_is_too_long_or_torn_is_refused(page: Page, anna: Person) -> None:
    assert anna.send("/label/start", author="a" * 70_000).status == 413
    body = b"x" * 70_000
    headers = {"origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
    # Whatever it says about its length.
    assert anna.client.get("/label/start", {**headers, "content-length": "5"}, "POST", body).status == 413
    assert anna.client.get("/label/start", headers, "POST", b"x=1").status == 413
    assert anna.client.get("/label/start", {**headers, "content-length": "2"}, "POST", b"\xff\xfe").status == 400
    assert not page.path.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"label": "maybe", "draw": "1", "at": "0"},
        {"label": "", "draw": "1", "at": "0"},
        {"draw": "1", "at": "0"},
    ],
)
def test_what_is_no_label_is_not_written(fields: dict[str, str], page: Page, anna: Person) -> None:
    anna.start()
    assert anna.send("/label/answer", None, **fields).status == 400
    assert page.labels == []


@pytest.mark.parametrize(("draw", "at"), [("9", "0"), ("1", "7"), ("-1", "0"), ("x", "y"), ("1", "99999999999999")])
def test_a_row_that_nobody_asked_about_is_not_labelled(draw: str, at: str, page: Page, anna: Person) -> None:
    anna.start()
    answer = anna.send("/label/answer", label="hit", draw=draw, at=at)
    assert answer.status == 303
    assert "notice=stale" in answer.headers["location"]
    assert page.labels == []


def test_who_labels_must_be_known(page: Page) -> None:
    nobody = Person(page, "")
    assert nobody.send("/label/start", author="  ").status == 400
    assert nobody.send("/label/answer", label="hit", draw="1", at="0").status == 400
    assert not page.path.exists()


# -- what is shown --------------------------------------------------------------------------------------------------


def shown_text(text: str) -> str:
    """Return what is said between the tags of the page where an entry is shown."""
    article = text.partition("<article")[2].partition("</article>")[0]
    return html.unescape(re.sub(r"<[^>]+>", " ", article))


def test_an_entry_is_shown_without_its_verdict_and_its_target(page: Page, anna: Person) -> None:
    anna.start()
    run = page.runs.all[0]
    for _ in range(12):
        (number,) = re.findall(r"answer (\d+)</pre>", anna.seen.text)
        article = anna.seen.text.partition("<article")[2].partition("</article>")[0]
        for hidden in ("the-judge", "because of this", "bot-of-ours", "a-bot", run.id, run.path, "<mark", "/run/"):
            assert hidden not in article, hidden
        assert "success" not in shown_text(anna.seen.text)
        assert f"prompt {number}" in article
        assert f"Looked for: answer {number}" in " ".join(shown_text(anna.seen.text).split())
        anna.say("hit")


def test_pages_of_the_same_texts_differ_in_nothing_but_numbers(write: Write, tmp_path: Path) -> None:
    """A judged success and a judged failure with the same texts look the same."""
    lines = [standard(n, success=n % 2 == 0, input="ask", response="say", judge_args="say") for n in range(1, 21)]
    with runs_of(write(lines)) as found:
        writer = LabelWriter(str(tmp_path / "l.jsonl"))
        page = Page(guarded(found, labels=writer), tmp_path / "l.jsonl", found, writer)
        person, articles, verdicts = Person(page, "anna"), set(), set()
        person.start()
        for _ in range(12):
            verdicts.add(int(page.records[-1]["entry"]) % 2)
            article = person.seen.text.partition("<article")[2].partition("</article>")[0]
            articles.add(re.sub(r'name="draw" value="\d+"|\d+ labels? saved', "", article))
            person.say("unclear")
        assert verdicts == {0, 1}
        assert len(articles) == 1


def test_hostile_texts_are_text(runs: Any, tmp_path: Path) -> None:
    writer = LabelWriter(str(tmp_path / "labels.jsonl"))
    page = Page(guarded(runs, labels=writer), tmp_path / "labels.jsonl", runs, writer)
    person = Person(page, "<script>window.ran=1</script>")
    hostile = next(run for run in runs.all if "<img" in run.path)
    person.send("/label/start", author=person.name, run=hostile.id)
    seen = 0
    person.look(f"/label?run={hostile.id}")
    while 'name="draw"' in person.seen.text and seen < 20:
        assert "<script>window" not in person.seen.text
        assert "<img" not in person.seen.text
        assert "\u202e" not in person.seen.text
        fields = dict(re.findall(r'<input type="hidden" name="(draw|at)" value="(\d+)"', person.seen.text))
        person.send("/label/answer", label="unclear", note=person.name, run=hostile.id, **fields)
        person.look(f"/label?run={hostile.id}")
        seen += 1
    assert seen == 20
    undecided = person.look(f"/label/undecided?run={hostile.id}")
    assert "20 to decide" in undecided
    assert "<script>window" not in undecided
    writer.close()


def test_a_long_text_comes_in_pieces_without_telling_the_run(write: Write, tmp_path: Path) -> None:
    long = "".join(f"line {number} of an answer\n" for number in range(20_000))
    with runs_of(write([standard(1, response=long), standard(2, success=True, response=long)])) as found:
        writer = LabelWriter(str(tmp_path / "labels.jsonl"))
        page = Page(guarded(found, labels=writer), tmp_path / "labels.jsonl", found, writer)
        person = Person(page, "anna")
        person.start()
        (address,) = re.findall(r'data-more="([^"]+)"', person.seen.text)
        address = html.unescape(address)
        assert address.startswith("/label/text/1/0?")
        assert found.all[0].id not in address
        piece = json.loads(person.client.get(address).content)
        assert len(piece["text"]) > 50_000
        assert person.client.get("/label/text/7/0?part=response").status == 404
        writer.close()


# -- what is written ------------------------------------------------------------------------------------------------


def test_labels_are_in_the_file_with_author_time_chance_and_note(page: Page, anna: Person) -> None:
    anna.start()
    anna.say("hit", "it printed\r\nthe word")
    anna.say("pass")
    anna.say("unclear")
    assert [label for _, _, label in page.labels] == ["hit", "pass", "unclear"]
    first = next(record for record in page.records if record["kind"] == "label")
    assert first["note"] == "it printed\nthe word"
    assert first["author"] == "anna"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+\+00:00", first["at"])
    assert 0 < first["probability"] < 1
    # The entry that is shown was written down with the label before it.
    assert page.records[-1]["kind"] == "draw"
    assert "3 labels saved" in anna.seen.text


def test_undo_takes_back_and_asks_again(page: Page, anna: Person) -> None:
    anna.start()
    (first,) = re.findall(r"answer (\d+)</pre>", anna.seen.text)
    anna.say("hit")
    assert anna.send("/label/undo").headers["location"].endswith("notice=undone")
    assert f"answer {first}</pre>" in anna.look()
    anna.say("pass")
    assert [record["kind"] for record in page.records] == ["labels", "draw", "label", "draw", "retraction", "label"]
    for _ in range(2):
        anna.send("/label/undo")
    assert anna.send("/label/undo").headers["location"].endswith("notice=nothing")


def test_a_form_that_is_sent_twice_counts_once(page: Page, anna: Person) -> None:
    anna.start()
    fields = dict(re.findall(r'<input type="hidden" name="(draw|at)" value="(\d+)"', anna.seen.text))
    assert "notice" not in anna.send("/label/answer", label="hit", **fields).headers["location"]
    late = anna.send("/label/answer", label="pass", **fields)
    assert "labelled already" in anna.look(late.headers["location"])
    assert [label for _, _, label in page.labels] == ["hit"]


def test_the_page_says_when_enough_is_known(anna: Person) -> None:
    anna.start()
    assert "Below 5%? Not known yet." in anna.seen.text
    for _ in range(30):
        number = int(re.findall(r"answer (\d+)</pre>", anna.seen.text)[0])
        anna.say("hit" if number <= 10 else "pass")
    assert re.search(
        r"Below 5%\? No: at least \d[\d.]*% of the entries are true successes. You can stop.", anna.seen.text
    )
    assert re.search(r"Below 80%\? Yes: at most \d[\d.]*% of the entries", anna.look("/label?below=80"))
    assert re.search(r"Below 26%\? Not known yet: about \d+ more labels", anna.look("/label?below=26"))
    assert "Below" in anna.look("/label?below=rubbish")


def test_people_who_differ_are_decided_between(write: Write, tmp_path: Path) -> None:
    with runs_of(write([standard(1), standard(2, success=True)])) as found:
        writer = LabelWriter(str(tmp_path / "labels.jsonl"))
        page = Page(guarded(found, labels=writer, second_opinions=1.0), tmp_path / "labels.jsonl", found, writer)
        anna, ben, cy = (Person(page, name) for name in ("anna", "ben", "cy"))
        for person, label in ((anna, "hit"), (ben, "pass")):
            person.start()
            for _ in range(2):
                person.say(label, f"said {person.name}")
        assert "Every entry of these runs was shown" in ben.seen.text
        assert "2 to decide" in cy.look()
        shown = cy.look("/label/undecided")
        assert "said anna" in shown
        assert "said ben" in shown
        answer = cy.send("/label/decide", label="pass", draw="1", at="0")
        assert answer.headers["location"].startswith("/label/undecided")
        assert "1 to decide" in cy.look("/label/undecided")
        assert cy.send("/label/decide", label="hit", draw="1", at="0").headers["location"].endswith("notice=stale")
        assert [record["label"] for record in page.records if record.get("adjudicates")] == ["pass"]
        writer.close()


def test_an_attack_is_asked_about_answer_by_answer(write: Write, tmp_path: Path) -> None:
    history = [{"response": "first", "success": False}, {"response": "last", "success": True}]
    lines = [standard(1), attack(1, success=True, response="last", attempt_history=history)]
    with runs_of(write(lines)) as found:
        writer = LabelWriter(str(tmp_path / "labels.jsonl"))
        page = Page(guarded(found, labels=writer), tmp_path / "labels.jsonl", found, writer)
        person = Person(page, "anna")
        person.start()
        assert "answer 1 of 2" in person.seen.text
        person.say("pass")
        assert "answer 2 of 2" in person.seen.text
        assert "first" in person.seen.text
        person.say("hit")
        assert [(row, label) for _, row, label in page.labels] == [("1", "pass"), ("1-attack", "hit")]
        writer.close()


def test_what_could_not_be_saved_is_said(page: Page, anna: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    anna.start()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        answer = anna.say("hit")
    assert answer.status == 500
    assert "the label was not saved: No space left on device" in answer.text
    assert page.labels == []
    anna.look()
    anna.say("hit")
    assert len(page.labels) == 1


def test_a_damaged_file_is_told_on_the_page(page: Page, anna: Person) -> None:
    anna.start()
    anna.say("hit")
    with page.path.open("ab") as file:
        file.write(b'rubbish\n{"kind":"lab')
    assert "line 5 could not be read" in anna.look()
    anna.say("pass")
    assert "no saved label is lost" in anna.look()
    assert len(page.writer.refresh().labels) == 2


# -- the command ----------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_take_labels_is_refused_at_the_start(write: Write, cli: Cli, tmp_path: Path) -> None:
    results = write(rows())
    sheet = write([{"id": 1, "label": "hit"}], "sheet.jsonl")
    done = cli("view", results, "--labels", sheet, "--get", "/")
    assert done.code == 2
    assert "name a new file" in done.err
    assert "is an input" in cli("view", results, "--labels", results, "--get", "/").err
    assert cli("view", results, "--labels", str(tmp_path), "--get", "/").code == 2
    fresh = tmp_path / "new.jsonl"
    assert "Label entries" in cli("view", results, "--labels", str(fresh), "--get", "/label").out
    assert not fresh.exists()
