"""Who is let in, what every answer carries, and that nothing but the given files can be read."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from faircount.app import view as call
from faircount.app.web.runs import Runs
from faircount.app.web.server import HEADERS, POLICY, Access, Guard
from faircount.core import UsageError
from tests.app.web.conftest import TOKEN, Client
from tests.conftest import Cli, Write, some, standard

WEB = Path(call.__file__).parent / "web"
PLACES = (
    "/",
    "/?sort=-rate",
    "/rows?run={0}",
    "/run/{0}",
    "/run/{0}?rows=lang&columns=plugin",
    "/run/{0}/entries",
    "/run/{0}/entries?f.outcome=success&sort=-attempts&col=lang&col=prompt",
    "/run/{0}/entries?where=lang+%3D+de",
    "/run/{0}/entry/1",
    "/run/{0}/entry/1.txt",
    "/run/{0}/entry/1.json",
    "/run/{0}/line/1",
    "/run/{0}/text/1?part=response",
    "/run/{0}/xray/1?part=prompt",
    "/run/{0}/complete?text=lang",
    "/run/{0}/judges",
    "/run/{0}/judges?judge=nobody&threshold=x&by=nothing",
    "/run/{0}/entries?f.judges=differ",
    "/compare?run={0}&run={1}",
    "/search?q=canary",
    "/search?q=canary&now=1",
    "/hits?q=canary",
    "/live",
    "/static/view.js",
    "/static/view.css",
    "/static/report.css",
)


@pytest.mark.parametrize("place", PLACES)
def test_every_page_is_there_and_carries_the_policy(place: str, client: Client, run_of: dict[str, str]) -> None:
    response = client.get(place.format(run_of["bot-weak"], run_of["dynamic"]))
    assert response.status == 200
    for name, value in HEADERS.items():
        assert response.headers[name] == value
    assert response.headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("place", ["/nothing", "/run/0000000000", "/run/0000000000/entries", "/static/app.py"])
def test_an_unknown_address_has_the_policy_too(place: str, client: Client) -> None:
    response = client.get(place)
    assert response.status == 404
    assert response.headers["content-security-policy"] == POLICY


# -- who is let in ----------------------------------------------------------------------------------------------


def outsider(client: Client) -> Client:
    return Client(client.app)


@pytest.mark.parametrize("place", ["/", "/static/view.js", "/hits?q=a", "/live", "/?token=wrong-token-of-some-length"])
def test_nobody_without_the_token_gets_anything(place: str, client: Client) -> None:
    response = outsider(client).get(place)
    assert response.status == 403
    assert "canary" not in response.text
    assert response.headers["content-security-policy"] == POLICY


def test_the_token_leaves_the_address_and_becomes_a_cookie(client: Client) -> None:
    response = outsider(client).get(f"/search?q=a&token={TOKEN}")
    assert response.status == 303
    assert response.headers["location"] == "/search?q=a"
    cookie = response.headers["set-cookie"]
    assert f"faircount-8000={TOKEN}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie


def test_the_token_never_sends_anybody_elsewhere(client: Client) -> None:
    for path in ("//attacker.invalid/", "/\\attacker.invalid"):
        response = outsider(client).get(f"{path}?token={TOKEN}")
        assert re.match(r"/[^/\\]|/$", response.headers["location"])


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "attacker.invalid:8000"},
        {"host": "127.0.0.1.attacker.invalid:8000"},
        {"host": "127.0.0.1:9000"},
        {"host": "127.0.0.1"},
        {"host": ""},
    ],
)
def test_a_name_that_was_pointed_here_is_refused(headers: dict[str, str], client: Client) -> None:
    assert client.get("/", headers=headers).status == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000"])
def test_this_machine_may_be_called_by_its_names(host: str, client: Client) -> None:
    assert client.get("/", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://attacker.invalid"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "https://127.0.0.1:8000"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_request_that_another_site_made_is_refused(headers: dict[str, str], client: Client) -> None:
    assert client.get("/", headers=headers).status == 403


def test_our_own_pages_may_ask(client: Client) -> None:
    headers = {"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}
    assert client.get("/live", headers=headers).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_the_page_only_reads(method: str, client: Client) -> None:
    assert client.get("/", method=method).status == 405


def test_another_host_needs_a_token_and_says_what_it_means(cli: Cli, write: Write) -> None:
    path = write([standard(1)])
    refused = cli("view", path, "--host", "0.0.0.0")
    assert refused.code == 2
    assert "other machines" in refused.err
    assert "--token" in refused.err
    short = cli("view", path, "--host", "0.0.0.0", "--token", "abc")
    assert short.code == 2
    assert "at least 16" in short.err


def test_where_others_are_let_in_a_name_still_cannot_be_pointed_here(client: Client) -> None:
    access = Access.for_host("0.0.0.0", 8000, TOKEN)
    open_to_all = Client(Guard(client.app._app, access), "192.0.2.1:8000", f"{access.cookie}={TOKEN}")
    assert open_to_all.get("/live").status == 200
    assert open_to_all.get("/live", headers={"host": "attacker.invalid:8000"}).status == 421


# -- what can be read -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        "/run/..%2f..%2fetc%2fpasswd",
        "/run/%2fetc%2fpasswd",
        "/run//etc/passwd/entries",
        "/static/..%2fapp.py",
        "/static/../templates/base.html",
        "/static/%2e%2e/server.py",
        "/compare?run=/etc/passwd&run=/etc/hosts",
        "/search?q=root&run=/etc/passwd&now=1",
        "/hits?q=daemon:&run=/etc/passwd",
    ],
)
def test_only_files_that_were_given_are_read(place: str, client: Client) -> None:
    response = client.get(place)
    assert "root:" not in response.text
    assert "import" not in response.text
    assert "/bin/" not in response.text


@pytest.mark.parametrize("part", ["../../etc/passwd", "row", "", "response.0", "__class__"])
def test_a_text_is_named_by_its_place_in_the_row(part: str, client: Client, run_of: dict[str, str]) -> None:
    response = client.get(f"/run/{run_of['bot-weak']}/text/1?{urlencode({'part': part})}")
    assert response.status == 400


def test_reading_leaves_everything_as_it_was(results: Path, client: Client, run_of: dict[str, str]) -> None:
    def state() -> dict[str, str]:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in some(results.iterdir())}

    before = state()
    for place in PLACES:
        client.get(place.format(run_of["<img"], run_of["dynamic"]))
    assert state() == before


# -- starting ---------------------------------------------------------------------------------------------------


def test_nothing_of_a_server_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys; from faircount.app.cli import main\n"
        "try: main(['view', '--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('starlette', 'uvicorn', 'jinja2', 'asyncio', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    done = cli("view", write([standard(1)]))
    assert done.code == 2
    assert "pip install 'faircount[view]'" in done.err


def test_a_page_can_be_had_without_a_server(cli: Cli, write: Write) -> None:
    path = write([standard(1, success=True), standard(2)])
    done = cli("view", path, "--get", "/")
    assert done.code == 0
    (run,) = set(re.findall(r'data-run="(\w+)"', done.out))
    page = cli("view", path, "--get", f"/run/{run}")
    assert page.code == 0
    assert "50% of 2 attacks succeeded" in page.out
    assert cli("view", path, "--get", "/run/nothing").code == 3


def test_a_folder_is_searched_and_a_glob_expanded(cli: Cli, write: Write, tmp_path: Path) -> None:
    write([standard(1)], "runs/a/results_x.jsonl")
    write([standard(2)], "runs/results_y.jsonl")
    write([{"id": 1, "content": "an entry of a dataset"}], "runs/dataset.jsonl")
    assert len(re.findall("<tr id=", cli("view", str(tmp_path / "runs"), "--get", "/").out)) == 2
    assert len(re.findall("<tr id=", cli("view", str(tmp_path / "runs" / "*.jsonl"), "--get", "/").out)) == 2
    assert cli("view", str(tmp_path / "none"), "--get", "/").code == 3


def test_without_a_path_it_takes_the_results(
    cli: Cli, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write([standard(1)], "results/results_x.jsonl")
    write([standard(2)], "results_y.jsonl")
    monkeypatch.chdir(tmp_path)
    assert "results_y" not in cli("view", "--get", "/").out


def test_a_port_that_is_taken_is_an_answer() -> None:
    from faircount.app.web.server import listening_socket

    with listening_socket("127.0.0.1", 0) as taken, pytest.raises(UsageError, match="cannot listen on port"):
        listening_socket("127.0.0.1", taken.getsockname()[1])


def test_it_serves_and_an_interrupt_ends_it(write: Write) -> None:
    import signal
    import urllib.error
    import urllib.request

    from tests.conftest import interruptible

    path = write([standard(1, success=True)])
    command = [sys.executable, "-m", "faircount", "view", path, "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=interruptible
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert b"<h1>Runs</h1>" in opener.open(address).read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.partition("?")[0])
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


# -- safe by construction ---------------------------------------------------------------------------------------


def test_templates_are_escaped_and_hold_no_script_or_style_of_their_own() -> None:
    for path in some((WEB / "templates").iterdir()):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|\bstyle=|\son\w+=|<style|srcdoc", text), path.name
        # An exported page holds its script, which its policy allows by hash: a page of a file can load none.
        text = text.replace("{% if exported %}<script>{{ exported.script }}</script>{% endif %}", "")
        assert re.findall(r"<script[^>]*>", text) in ([], ['<script type="module" src="/static/view.js">']), path.name


def test_scripts_make_no_markup_of_texts() -> None:
    for path in some((WEB / "static").glob("*.js")):
        text = path.read_text(encoding="utf-8")
        for sink in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ):
            assert sink not in text, path.name
        assert not re.search(r"https?://", text), path.name


def test_the_page_says_nothing_of_a_broken_run_but_why(cli: Cli, write: Write) -> None:
    bad = write([b"{ not JSON <script>", b"{ nor this"], "results_bad.jsonl")
    good = write([standard(1)], "results_good.jsonl")
    done = cli("view", bad, good, "--get", "/")
    assert done.code == 0
    assert "cannot read" in done.out
    assert "<script>" not in done.out


def test_runs_of_a_page_have_addresses_of_their_own(runs: Runs) -> None:
    assert len({run.id for run in runs.all}) == len(runs.all)
    assert all(re.fullmatch(r"[0-9a-f]{10}", run.id) for run in runs.all)
