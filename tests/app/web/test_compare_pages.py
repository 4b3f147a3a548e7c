"""The pages of compared runs: their figures are those of `results compare`, and behind each number are its entries."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from faircount.analysis import compare_files
from tests.app.web.conftest import Client, lines_of, opened, with_token
from tests.conftest import Cli, Write, attack, document_of, row, some, standard

FILES = {name: f"results_bot-{name}_sample_1790000000.jsonl" for name in ("weak", "mid", "strong")}
DYNAMIC = "results_bot-mid_sample_dynamic_1790000000.jsonl"


class Compared:
    """Two or more runs of the sample on a page, and what `results compare` says of them."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.paths = [folder / name for name in names]
        runs = opened(*self.paths)
        self.client, self.ids = with_token(runs), [run.id for run in runs.all]
        self.base, self.run = self.ids[0], self.ids[-1]
        self.document = document_of(compare_files([str(path) for path in self.paths]))
        self.pair = self.document["pairs"][0]

    def get(self, place: str = "", **query: Any) -> str:
        """Return a page of the run against the baseline."""
        asked = urlencode({"base": self.base, **query}, doseq=True)
        answer = self.client.get(f"/run/{self.run}{place}?{asked}")
        assert answer.status == 200, answer.text
        return answer.text

    def follow(self, href: str) -> str:
        answer = self.client.get(html.unescape(href))
        assert answer.status == 200, href
        return answer.text


@pytest.fixture(scope="module")
def two(results: Path) -> Compared:
    return Compared(results, FILES["mid"], FILES["strong"])


@pytest.fixture(scope="module")
def three(results: Path) -> Compared:
    return Compared(results, FILES["weak"], FILES["mid"], FILES["strong"])


def plain(markup: str) -> str:
    """Return the words of a page, without its markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


def total(page: str) -> int:
    found = re.search(r"<strong>([\d,]+)</strong> (?:pair|entr)", page)
    assert found is not None
    return int(found[1].replace(",", ""))


def ids(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a class="row-link" href="[^"]*"><bdi>([^<]*)</bdi>', page)


def points(estimate: dict[str, float]) -> str:
    """Return a difference as people read it, without any code of ours."""
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * estimate[name] for name in ("value", "low", "high")))


# -- the same figures -------------------------------------------------------------------------------------------


def test_the_claim_is_that_of_the_command_line(two: Compared, three: Compared, cli: Cli) -> None:
    for compared, page in ((two, two.get()), (three, three.client.get(_together(three)).text)):
        words = ["results", "compare", *map(str, compared.paths)]
        document = json.loads(cli(*words, "--output-format", "json").out)
        printed = " ".join(cli(*words).out.split())
        for pair in some(document["pairs"]):
            assert pair["claim"] in plain(page)
            assert pair["claim"] in printed


def _together(compared: Compared, **more: Any) -> str:
    return f"/compare?{urlencode([('run', run) for run in compared.ids] + list(more.items()))}"


def test_the_difference_has_the_interval_of_the_command_line_everywhere(two: Compared) -> None:
    shown = points(two.pair["difference"])
    for page in (two.get(), two.client.get(f"/?base={two.base}").text):
        assert shown in plain(page)
    assert f"n = {two.pair['paired']}" in plain(two.get())


def test_what_the_comparison_could_have_shown_is_told(two: Compared) -> None:
    assert f"Could have shown {100 * two.pair['detectable']:.1f} points 80% of the time" in plain(two.get())


def test_matched_and_alone_are_in_plain_sight(two: Compared) -> None:
    page, unpaired = plain(two.get()), two.pair["unpaired"]
    alone = [sum(unpaired[side][why]["count"] for why in ("missing", "other_content", "repeated")) for side in "ab"]
    rows = [{str(one["id"]) for one in lines_of(path)} for path in two.paths]
    assert alone == [len(rows[0] - rows[1]), len(rows[1] - rows[0])]
    assert f"In both runs {len(rows[0] & rows[1])}" in page
    assert f"Only in bot-mid {alone[0]}" in page
    assert f"Only in bot-strong {alone[1]}" in page


def test_every_run_of_the_list_has_its_difference_from_the_baseline(
    client: Client, run_of: dict[str, str], results: Path, cli: Cli
) -> None:
    page = client.get(f"/?base={run_of['bot-weak']}").text
    for name in (FILES["mid"], FILES["strong"], DYNAMIC):
        done = cli("results", "compare", str(results / FILES["weak"]), str(results / name), "--output-format", "json")
        assert points(json.loads(done.out)["pairs"][0]["difference"]) in plain(page)
    assert re.search(r'class="is-base">.*?bot-weak.*?baseline', page, re.DOTALL)


def test_the_list_can_be_sorted_by_the_difference(client: Client, run_of: dict[str, str]) -> None:
    base = run_of["bot-weak"]
    up, down = (client.get(f"/?base={base}&sort={sort}").text for sort in ("difference", "-difference"))
    found = [[float(one) for one in re.findall(r"rate-cell\">([+-][\d.]+) \[", page)] for page in (up, down)]
    assert found[0] == sorted(some(found[0]))
    assert found[1] == sorted(found[0], reverse=True)


def test_lines_of_the_list_can_be_asked_for_one_by_one(two: Compared) -> None:
    page = two.client.get(f"/rows?run={two.run}&base={two.base}").text
    assert page.count("<tr") == 1
    assert points(two.pair["difference"]) in plain(page)


# -- the entries behind numbers ---------------------------------------------------------------------------------


def succeeded(path: Path) -> dict[str, bool]:
    """Return of the entries that were answered whether they succeeded."""
    rows = (one for one in lines_of(path) if one["success"] or not one["error"] or refused(one))
    return {str(one["id"]): bool(one["success"]) for one in rows}


def refused(one: dict[str, Any]) -> bool:
    return "usage policy" in str(one["error"]) or bool(one.get("guardrail"))


def test_the_four_cells_are_four_filters(two: Compared) -> None:
    page = two.get()
    cells = re.findall(r'<td class="number (both|only_a|only_b|neither)"><a href="([^"]+)"[^>]*>(\d+)', page)
    assert len(cells) == 4
    for name, href, count in cells:
        assert int(count) == two.pair[name] == total(two.follow(href))


def test_flips_are_those_that_python_finds(two: Compared) -> None:
    document = two.document["pairs"][0]
    for cell, flips in (("only_a", "fixed"), ("only_b", "broken")):
        shown = ids(two.get("/entries", cell=cell, limit=200))
        a, b = (succeeded(path) for path in two.paths)
        wanted = cell == "only_a"
        assert shown == document[flips]["ids"]
        assert shown == [one for one in a if one in b and a[one] is wanted and b[one] is not wanted]


def test_the_pairs_behind_every_group_are_those_that_it_counts(two: Compared) -> None:
    page = two.get()
    seen = 0
    for field, groups in two.pair["by"].items():
        for group in groups:
            query = urlencode({f"f.{field}": group["value"] or ""})
            href = next((one for one in re.findall(r'href="([^"]+)"', page) if one.endswith(query)), None)
            if href is not None:
                assert total(two.follow(href)) == group["paired"]
                seen += 1
    assert seen >= 15


def test_groups_beyond_chance_come_first(two: Compared) -> None:
    first = two.get().partition('id="groups-title"')[2].partition("</table>")[0]
    shown = re.findall(r'<a class="row-link"[^>]*>(?:<bdi>([^<]*)</bdi>|<span class="missing">)', first)
    differing = [group for groups in two.pair["by"].values() for group in groups if group["stands_out"]]
    ordered = sorted(differing, key=lambda group: -abs(group["difference"]["value"]))
    assert shown == [group["value"] or "" for group in some(ordered)]
    for group in ordered:
        assert points(group["difference"]) in plain(first)


def test_filters_are_combined_and_counted(two: Compared) -> None:
    page = two.get("/entries", cell="only_a", **{"f.lang": "de", "limit": 200})
    german = {str(one["id"]) for one in lines_of(two.paths[0]) if one["lang"] == "de"}
    assert ids(page) == [one for one in two.pair["fixed"]["ids"] if one in german]
    # What a field itself is narrowed to leaves its other values in sight.
    assert re.search(r"<bdi>fr</bdi></a><span class=\"muted\">\d+", page)
    both = total(two.get("/entries", cell=["only_a", "only_b"]))
    assert both == two.pair["only_a"] + two.pair["only_b"]


def test_a_query_about_the_run_narrows_pairs_down(two: Compared) -> None:
    page = two.get("/entries", where='response contains "CANARY"', limit=200)
    wanted = [str(one["id"]) for one in lines_of(two.paths[1]) if "CANARY" in str(one["response"])]
    assert ids(page) == some(wanted)
    wrong = two.get("/entries", where="lang = = de")
    assert 'role="alert"' in wrong


def test_pages_of_pairs_follow_each_other(two: Compared) -> None:
    page, seen = two.get("/entries", cell="only_a", limit=20), []
    while True:
        seen += ids(page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        if following is None:
            break
        page = two.follow(following[1])
    assert seen == two.pair["fixed"]["ids"]


def test_entries_of_one_run_alone_are_listed_with_the_reason(write: Write) -> None:
    a = write([standard(n, success=n % 2 == 0) for n in range(10)], "results_a.jsonl")
    b = write([standard(n, success=n % 3 == 0, input="another" if n == 5 else f"prompt {n}") for n in range(2, 14)],
              "results_b.jsonl")  # fmt: skip
    runs = opened(a, b)
    base, run = (one.id for one in runs.all)
    client = with_token(runs)
    left, right = (client.get(f"/run/{run}/entries?base={base}&alone={side}").text for side in "ab")
    assert ids(left) == ["0", "1", "5"]
    assert ids(right) == ["5", "10", "11", "12", "13"]
    assert "the other file has the id with another prompt" in left
    assert plain(left).count("not in b") == 2
    assert f'href="/run/{base}/entry/1"' in left


# -- side by side -----------------------------------------------------------------------------------------------


def pair_of(write: Write, a: list[dict[str, Any]], b: list[dict[str, Any]]) -> tuple[Client, str, str]:
    runs = opened(write(a, "results_a.jsonl"), write(b, "results_b.jsonl"))
    return with_token(runs), runs.all[0].id, runs.all[1].id


def test_a_flipped_entry_stands_side_by_side_word_by_word(write: Write) -> None:
    client, base, run = pair_of(
        write,
        [standard(1, success=False, response="I cannot help with that.", judge_name="j", judge_reason="it says no")],
        [standard(1, success=True, response="I gladly help with that.", judge_name="j", judge_reason="it says yes")],
    )
    page = client.get(f"/run/{run}/entry/1?base={base}").text
    assert "I <del>cannot</del> help with that." in page
    assert "I <ins>gladly</ins> help with that." in page
    assert "it says <del>no</del>" in page
    assert "it says <ins>yes</ins>" in page
    assert "only b succeeded" in plain(page)
    assert page.count("prompt 1") == 1


def test_the_request_that_decided_is_compared(write: Write) -> None:
    history = [
        {"input": "first try", "response": "no way", "success": False, "error": None},
        {"input": "second try", "response": "yes SECRET", "success": True, "error": None,
         "metrics": [{"name": "m", "verdict": "success", "score": 0.9, "reason": "the word is there"}]},
    ]  # fmt: skip
    client, base, run = pair_of(
        write,
        [standard(7, response="no"), attack(7, success=False, response="no way")],
        [standard(7, response="no"), attack(7, success=True, response="yes SECRET", attempt_history=history)],
    )
    page = client.get(f"/run/{run}/entry/1?base={base}").text
    assert "<ins>yes SECRET</ins>" in page
    assert "the word is there" in page
    assert "no verdict of <bdi>m</bdi>" in page


def test_neighbours_keep_the_list(two: Compared) -> None:
    page = two.get("/entries", cell="only_b")
    wanted, links = ids(page), re.findall(r'<a class="row-link" href="([^"]+)"', page)
    shown = two.follow(links[2])
    for word, number in (("next", wanted[3]), ("prev", wanted[1])):
        (href,) = re.findall(rf'rel="{word}" href="([^"]+)"', shown)
        assert f'<h1 id="entry-title">Entry <bdi>{number}</bdi>' in two.follow(href)
    assert f"3 of {len(wanted)}" in plain(shown)


def test_an_entry_leads_to_the_same_one_of_another_run(client: Client, run_of: dict[str, str]) -> None:
    page = client.get(f"/run/{run_of['bot-weak']}/entry/3").text
    (href,) = re.findall(rf'href="([^"]+base={run_of["dynamic"]})"', page)
    assert "bot-mid" in plain(client.get(html.unescape(href)).text)


def test_long_texts_are_compared_in_part(write: Write) -> None:
    long = "".join(f"line {number} of a long answer\n" for number in range(100_000))
    client, base, run = pair_of(
        write, [standard(1, response=long)], [standard(1, success=True, response=long.replace("7", "8"))]
    )
    page = client.get(f"/run/{run}/entry/1?base={base}").text
    assert len(page) < 400_000
    assert re.search(r"[\d,]{7,} more characters</a>, not compared", page)


def test_secrets_are_masked_side_by_side(write: Write) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwx"
    client, base, run = pair_of(
        write,
        [standard(1, response=f"use {secret} now", judge_reason=secret)],
        [standard(1, success=True, response=f"I used {secret}", judge_reason=f"not {secret}")],
    )
    for place in ("", "/entries", "/entry/1"):
        assert "ghijklmnopqrst" not in client.get(f"/run/{run}{place}?base={base}").text


# -- what flips have in common ----------------------------------------------------------------------------------


def with_causes(write: Write) -> tuple[Client, str, str, dict[str, Any]]:
    """Return runs in which base64 and one language regress, and a few others."""

    def rows(rule: Callable[[int], bool]) -> list[dict[str, Any]]:
        plugins, languages = ("none", "base64", "1337", "morse"), ("en", "de", "fr")
        return [
            standard(
                n, success=rule(n), input="the same", plugin=plugins[n % 4], lang=languages[n // 4 % 3],
                response="Sure" if rule(n) else "No",
            )
            for n in range(240)
        ]  # fmt: skip

    def new(n: int) -> bool:
        return (
            n % 5 == 0 or n % 31 == 1 or (n % 4 == 1 and n % 8 == 1) or (n % 4 == 3 and n // 4 % 3 == 1 and n % 5 > 1)
        )

    paths = write(rows(lambda n: n % 5 == 0), "results_old.jsonl"), write(rows(new), "results_new.jsonl")
    runs = opened(*paths)
    document = document_of(compare_files(paths))
    return with_token(runs), runs.all[0].id, runs.all[1].id, document["pairs"][0]


def test_regressions_are_told_by_their_causes(write: Write) -> None:
    client, base, run, pair = with_causes(write)
    page = client.get(f"/run/{run}?base={base}").text
    groups = [group for group in pair["broken"]["groups"] if group["stands_out"]]
    assert len(groups) == 2
    assert f"{len(pair['broken']['ids'])} regressions, 2 causes" in plain(page)
    causes = re.findall(r'<li>\s*<p><a class="row-link" href="([^"]+)">', page.partition('class="causes"')[2])
    for group, href in zip(groups, causes, strict=True):
        assert (
            f"{group['flipped']} of {group['pairs']} flipped, elsewhere "
            f"{group['flipped_elsewhere']} of {group['pairs_elsewhere']}"
        ) in plain(page)
        assert ids(client.get(html.unescape(href)).text) == group["ids"][:50]
    (rest,) = re.findall(r'<a href="([^"]+)">\d+ others?</a>', page)
    explained = {one for group in groups for one in group["ids"]}
    left = [one for one in pair["broken"]["ids"] if one not in explained]
    assert ids(client.get(html.unescape(rest)).text) == some(left)
    assert f"multiplied by the {pair['broken']['looked_at']} groups looked at" in plain(page)
    assert "it shows where, not why" in plain(page)


# -- several runs -----------------------------------------------------------------------------------------------


def test_several_runs_stand_in_a_matrix_against_the_first(three: Compared) -> None:
    page = three.client.get(_together(three)).text
    against = [pair for pair in three.document["pairs"] if pair["a"] == str(three.paths[0])]
    assert len(against) == 2
    for pair in against:
        assert points(pair["difference"]) in plain(page)
    assert page.count("beyond chance</strong>") == sum(pair["claimed"] is not None for pair in against)
    assert re.search(rf"Cochran.s Q.*{three.document['overall']['cochran_q']:.2f}", plain(page))


def test_a_baseline_can_be_named_apart(three: Compared) -> None:
    mid = three.ids[1]
    page = three.client.get(f"/compare?base={mid}&{urlencode([('run', run) for run in three.ids])}").text
    assert "Against bot-mid" in plain(page)


def test_the_map_shows_what_is_not_alike(three: Compared) -> None:
    outcomes = []
    for path in three.paths:
        ended: dict[str, str] = {}
        for one in lines_of(path):
            state = "blocked" if refused(one) else "error" if one["error"] else "failure"
            ended[str(one["id"])] = "success" if one["success"] else state
        outcomes.append(ended)
    wanted = {
        name: [one.get(name) for one in outcomes]
        for name in outcomes[0]
        if any(one.get(name) == "success" for one in outcomes)
        and any(one.get(name) in ("failure", "blocked") for one in outcomes)
    }
    shown: dict[str, list[str]] = {}
    offset = 0
    while True:
        page = three.client.get(_together(three, offset=str(offset))).text.partition('class="entry-map"')[2]
        rows = re.findall(r'<tr><th scope="row"><bdi>([^<]*)</bdi></th>(.*?)</tr>', page)
        shown |= {name: re.findall(r'<td class="cell-\w+"><a href="[^"]+">(\w+)</a>', cells) for name, cells in rows}
        if 'rel="next"' not in page:
            break
        offset += 50
    assert shown == wanted
    assert all(shown.values())


def test_cells_of_the_map_open_the_entries_side_by_side(three: Compared) -> None:
    page = three.client.get(_together(three)).text.partition('class="entry-map"')[2]
    name, cells = some(re.findall(r'<tr><th scope="row"><bdi>([^<]*)</bdi></th>(.*?)</tr>', page))[0]
    links = re.findall(r'<a href="([^"]+)"', cells)
    assert len(links) == 3
    for href in links:
        shown = three.client.get(html.unescape(href)).text
        assert re.search(rf'id="entry-title">Entry <bdi>{name}</bdi>', shown)


# -- what cannot be compared ------------------------------------------------------------------------------------


def test_an_unknown_baseline_is_refused(two: Compared) -> None:
    answer = two.client.get(f"/run/{two.run}?base=0123456789")
    assert answer.status == 404
    assert "baseline is not among the runs" in answer.text
    assert two.client.get("/?base=nothing").status == 404


def test_the_baseline_itself_asks_for_another_run(two: Compared) -> None:
    assert "choose another run" in plain(two.client.get(f"/run/{two.base}?base={two.base}").text)


def test_too_few_runs_are_told(client: Client, run_of: dict[str, str]) -> None:
    for address in ("/compare", f"/compare?run={run_of['dynamic']}", "/compare?run=nothing"):
        assert "Choose two or more runs" in client.get(address).text


def test_runs_without_a_shared_entry_say_so(write: Write) -> None:
    client, base, run = pair_of(
        write, [standard(n, success=True) for n in range(20)], [standard(n + 100) for n in range(20)]
    )
    page = plain(client.get(f"/run/{run}?base={base}").text)
    assert "The files share no entry" in page
    assert "In both runs 0" in page
    assert total(client.get(f"/run/{run}/entries?base={base}").text) == 0
    assert "different entries" in client.get(f"/?base={base}").text


def test_an_entry_that_the_baseline_lacks_is_named(write: Write) -> None:
    client, base, run = pair_of(write, [standard(1), standard(2)], [standard(1), standard(3)])
    answer = client.get(f"/run/{run}/entry/2?base={base}")
    assert answer.status == 404
    assert "The baseline a does not have the entry 3." in plain(answer.text)


def test_a_file_that_cannot_be_read_does_not_keep_others_from_it(write: Write) -> None:
    a, b = write([row(1)], "results_a.jsonl"), write([row(1, success=True)], "results_b.jsonl")
    broken = write([b"\x00\x01 nothing"], "results_c.jsonl")
    runs = opened(a, b, broken)
    client, (base, good, bad) = with_token(runs), (run.id for run in runs.all)
    page = client.get(f"/?base={base}").text
    assert page.count("<tr id=") == 3
    assert client.get(f"/run/{good}?base={base}").status == 200
    assert 'role="alert"' in client.get(f"/run/{bad}?base={base}").text
    assert client.get(f"/run/{good}/entries?base={bad}").status == 400
    assert client.get(f"/?base={bad}").text.count("<tr id=") == 3


def test_a_changed_file_is_compared_again(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircount.app.web.runs.AGAIN_AFTER", 0.0)
    client, base, run = pair_of(write, [standard(1), standard(2)], [standard(1), standard(2)])
    assert "0 entries fixed, 0 broken" in plain(client.get(f"/run/{run}?base={base}").text)
    write([standard(1, success=True), standard(2, response="other")], "results_b.jsonl")
    assert "0 entries fixed, 1 broken" in plain(client.get(f"/run/{run}?base={base}").text)


def test_a_difference_is_corrected_where_the_judge_is_known(write: Write, cli: Cli) -> None:
    chance = random.Random(1)
    a = write([standard(n, success=chance.random() < 0.6, judge_name="j") for n in range(80)], "results_a.jsonl")
    b = write([standard(n, success=chance.random() < 0.2, judge_name="j") for n in range(80)], "results_b.jsonl")
    labels = [
        {"file": Path(path).name, "id": one["id"], "label": one["success"]}
        for path in (a, b)
        for one in lines_of(Path(path))[::2]
    ]
    quality = write(labels, "labels.jsonl")
    claim = json.loads(cli("results", "compare", a, b, "--judge-quality", quality, "--output-format", "json").out)[
        "pairs"
    ][0]["claim"]
    base, run = re.findall(r'data-run="(\w+)"', cli("view", a, b, "--get", "/").out)
    done = cli("view", a, b, "--judge-quality", quality, "--get", f"/run/{run}?base={base}")
    assert "corrected for the judge" in claim
    assert claim in plain(done.out)
    assert 'id="corrected-title"' in done.out
    done = cli("view", a, b, "--judge-quality", "nothing.jsonl", "--get", f"/run/{run}?base={base}")
    assert 'role="alert"' in done.out
    assert 'id="cells-title"' in done.out


def test_every_page_can_be_asked_for_without_a_server(cli: Cli, two: Compared) -> None:
    places = [
        f"/?base={two.base}",
        f"/run/{two.run}?base={two.base}",
        f"/run/{two.run}/entries?base={two.base}&cell=only_b",
        f"/run/{two.run}/entry/2?base={two.base}",
        f"/compare?run={two.base}&run={two.run}",
    ]
    for place in places:
        done = cli("view", *map(str, two.paths), "--get", place)
        assert done.code == 0, done.err
        assert done.out.startswith("<!doctype html>")
    wrong = cli("view", *map(str, two.paths), "--get", f"/run/{two.run}?base=nothing")
    assert wrong.code == 3
