"""Result files in object stores: the numbers of local files, one request for a range, and errors that say what to do.

The server is a real one (moto, in a process of its own), and so are the library and the command line.
"""

from __future__ import annotations

import glob
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Ran, encode, standard
from tests.s3_server import BUCKET, S3Server, running

MISSING = [name for name in ("obstore", "moto") if util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")

RANGE = 8 * 1024 * 1024
MARGIN = 64 * 1024
SAMPLES = ROOT / "docs" / "samples"


@pytest.fixture(scope="module")
def one_server() -> Iterator[S3Server]:
    with running() as server:
        yield server


@pytest.fixture
def server(one_server: S3Server) -> S3Server:
    """A server with an empty bucket."""
    one_server.reset()
    return one_server


def environment(server: S3Server, **others: str | None) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GOOGLE_", "AZURE_"))}
    return {name: value for name, value in (ours | server.environment | others).items() if value is not None}


NO_KEYS = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}


def faircount(server: S3Server, *words: str, **others: str | None) -> Ran:
    command = [sys.executable, "-m", "faircount", *words]
    done = subprocess.run(command, env=environment(server, **others), capture_output=True, text=True, timeout=120)
    return Ran(done.returncode, done.stdout, done.stderr)


def python(server: S3Server, script: str, *words: str) -> Any:
    """Run a script in a process of its own, where obstore may be loaded; return what it prints, as JSON."""
    script = f"import json, sys\nimport faircount.io as io\n{script}"
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, env=environment(server), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def rows(count: int, size: int = 10) -> bytes:
    kinds = ("dan", "dev", "none")
    return encode(
        standard(n, success=n % 4 == 0, input=f"{n} {'x' * size}", jailbreak_type=kinds[n % 3]) for n in range(count)
    )


@pytest.fixture(scope="module")
def large() -> bytes:
    """Rows that take more than four ranges; a line is longer than what is fetched behind a range."""
    found = rows(9000, 3700)
    return found[: 2 * RANGE - 500] + b"y" * (2 * MARGIN) + found[2 * RANGE - 500 :]


def same_as_local(server: S3Server, path: Path, key: str, *words: str) -> list[tuple[str, str, str]]:
    """Run a command on a file and on a copy in the store; return the requests, after all else was compared."""
    address = server.put(key, path.read_bytes())
    server.requests()
    there = faircount(server, "results", *words[:1], address, *words[1:])
    requests = server.requests()
    here = faircount(server, "results", *words[:1], str(path), *words[1:])
    assert there.out.replace(address, str(path)) == here.out
    assert there.err.replace(address, str(path)) == here.err
    assert there.code == here.code
    assert here.out + here.err
    return requests


JSON = ("--output-format", "json")


# -- the same numbers -------------------------------------------------------------------------------------------

FORMATS = sorted(path.name for path in SAMPLES.iterdir() if path.suffix in (".json", ".jsonl", ".csv"))


# A store gives every format the same bytes in the same way: a third of them is enough in the quick tests.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if n % 3 == 0 else pytest.mark.slow) for n, name in enumerate(FORMATS)]
)
def test_every_format_gives_the_same_document_with_one_request(server: S3Server, name: str) -> None:
    requests = same_as_local(server, SAMPLES / name, f"runs/{name}", "analyze", *JSON)
    assert requests == [("GET", f"/{BUCKET}/runs/{name}", f"bytes=0-{RANGE + MARGIN - 1}")]


@pytest.mark.parametrize(
    "name", ["inspect/attack_epochs3.eval", "deepeval/deepeval.db", "tables/results.parquet", "tables/results.xlsx"]
)
@pytest.mark.shared
def test_formats_that_need_a_local_file_are_copied(server: S3Server, shared: Path, name: str) -> None:
    path = shared / "golden" / name
    assert len(same_as_local(server, path, name, "analyze", *JSON)) == 1


def test_a_hostile_file_is_as_harmless_as_on_the_disk(server: S3Server, tmp_path: Path) -> None:
    path, name = tmp_path / "results_x.jsonl", "results_x.jsonl"
    bad = [
        '{"id": 1, "success": tr',
        "\x1b]0;owned\x07",
        "[" * 2000,
        '{"id": "<script>", "success": 1e999}',
        "\x00" * 50,
    ]
    path.write_bytes(encode([standard(1, input="\x1b[31mred", response="<script>x</script>"), *bad, standard(2)]))
    same_as_local(server, path, name, "analyze", *JSON)
    same_as_local(server, path, name, "analyze", "--evidence", "5", "--output-format", "markdown")
    assert "\x1b" not in faircount(server, "results", "analyze", f"s3://{BUCKET}/{name}").out


@pytest.mark.parametrize("ending", [".jsonl.gz", ".jsonl.zst"])
def test_compressed_files_are_decompressed(server: S3Server, tmp_path: Path, ending: str) -> None:
    pytest.importorskip("zstandard")
    import zstandard

    path, content = tmp_path / f"results_x{ending}", rows(300)
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else zstandard.compress(content))
    assert len(same_as_local(server, path, path.name, "analyze", *JSON)) == 1


def test_a_compressed_file_that_is_cut_off_is_reported(server: S3Server, tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl.gz"
    path.write_bytes(gzip.compress(rows(3000))[:-500])
    same_as_local(server, path, path.name, "analyze", *JSON)
    assert '"F002"' in faircount(server, "results", "analyze", f"s3://{BUCKET}/{path.name}", *JSON).out


def test_an_empty_file_is_one(server: S3Server, tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl"
    path.touch()
    address = server.put("empty.jsonl", b"")
    there, here = (faircount(server, "results", "analyze", name) for name in (address, str(path)))
    assert (there.code, there.err.replace(address, str(path))) == (here.code, here.err)


def test_an_address_in_a_file_is_text(server: S3Server, tmp_path: Path) -> None:
    address = server.put("other.jsonl", rows(5))
    named = dict.fromkeys(
        ("source_file", "result_origin", "input", "response", "judge_name", "long_id", "file"), address
    )
    path = tmp_path / "results_x.jsonl"
    path.write_bytes(encode(standard(number, **named) for number in range(5)))
    server.requests()
    for words in (["analyze", "--evidence", "2"], ["check"], ["extract", "-o", str(tmp_path / "new.jsonl")]):
        assert faircount(server, "results", words[0], str(path), *words[1:]).code in (0, 1)
    assert server.requests() == []


# -- one request for a range ------------------------------------------------------------------------------------


def test_a_large_file_is_one_request_for_each_range(server: S3Server, tmp_path: Path, large: bytes) -> None:
    path = tmp_path / "results_large.jsonl"
    path.write_bytes(large)
    requests = same_as_local(server, path, "large.jsonl", "analyze", *JSON)
    first = RANGE + MARGIN
    starts = [0, *range(first, len(large), RANGE)]
    ends = [*starts[1:], len(large)]
    assert len(starts) == -(-len(large) // RANGE)
    assert requests == [
        ("GET", f"/{BUCKET}/large.jsonl", f"bytes={start}-{end - 1}") for start, end in zip(starts, ends, strict=True)
    ]


def test_ranges_can_be_read_by_themselves_in_another_process(server: S3Server, large: bytes) -> None:
    address = server.put("large.jsonl", large)
    version = python(server, "found = io.version_of(sys.argv[1]); print(json.dumps([found.size, found.tag]))", address)
    server.requests()
    script = f"""
address, size, tag = sys.argv[1], int(sys.argv[2]), sys.argv[3]
io.expect_version(address, io.FileVersion(size, tag))
found = []
for start in range(0, size, {RANGE}):
    stream = io.open_range(address, address, start, min(start + {RANGE}, size))
    found += [len(line) for block in io.blocks(stream) for line in block.lines]
print(json.dumps(found))
"""
    assert python(server, script, address, *map(str, version)) == list(map(len, large.splitlines()))
    requests = server.requests()
    # One line does not end within what is fetched behind its range.
    assert len(requests) == -(-len(large) // RANGE) + 1
    assert {method for method, *_ in requests} == {"GET"}


@pytest.mark.parametrize("limits", ["SPAWN_FROM_BYTES = 1", "SPAWN_FROM_BYTES = loading.PARTS_FROM_BYTES = 1"])
def test_several_processes_ask_for_each_range_once(server: S3Server, tmp_path: Path, large: bytes, limits: str) -> None:
    path, address = tmp_path / "results_large.jsonl", server.put("large.jsonl", large)
    path.write_bytes(large)
    script = f"""
import os
from faircount.readers import loading
os.cpu_count = lambda: 2
loading.{limits}
from faircount.app.cli import main
if __name__ == "__main__":
    sys.exit(main(["results", "analyze", "--no-cache", *sys.argv[1:]]))
"""
    command = [sys.executable, "-c", f"import sys\n{script}", address, *JSON]
    server.requests()
    ours = environment(server, TMPDIR=str(tmp_path))
    done = subprocess.run(command, env=ours, capture_output=True, text=True, timeout=120)
    requests = server.requests()
    here = faircount(server, "results", "analyze", str(path), *JSON)
    assert done.stdout.replace(address, str(path)) == here.out, done.stderr
    # The beginning is looked at first, and a line does not end within what is fetched behind its range.
    assert len([one for one in requests if one[2] != f"bytes=0-{MARGIN - 1}"]) == -(-len(large) // RANGE) + 2
    assert {method for method, *_ in requests} == {"GET"}
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_lines_are_read_back_by_range(server: S3Server, tmp_path: Path, large: bytes) -> None:
    path = tmp_path / "results_large.jsonl"
    path.write_bytes(large)
    address = server.put("large.jsonl", large)
    server.requests()
    there = faircount(server, "results", "show", "7000", address, *JSON)
    requests = server.requests()
    here = faircount(server, "results", "show", "7000", str(path), *JSON)
    assert there.out.replace(address, str(path)) == here.out
    assert "7000 xxx" in here.out
    assert len(requests) == -(-len(large) // RANGE) + 1
    first, last = map(int, requests[-1][2].removeprefix("bytes=").split("-"))
    assert last - first <= RANGE + 2 * MARGIN


def test_listed_files_are_one_request_each_and_never_asked_for_their_size(server: S3Server) -> None:
    for number in range(40):
        server.put(f"runs/results_{number:02}.jsonl", rows(20 + number))
    server.put("runs/notes.txt", b"nothing")
    server.requests()
    done = faircount(server, "results", "analyze", f"s3://{BUCKET}/runs/*.jsonl", *JSON)
    requests = server.requests()
    assert len(json.loads(done.out)["analyses"]) == 40
    listings, objects = [[one for one in requests if ("?" in one[1]) is listing] for listing in (True, False)]
    assert len(listings) == 1
    assert sorted(path for _, path, _ in objects) == [f"/{BUCKET}/runs/results_{n:02}.jsonl" for n in range(40)]
    assert {method for method, *_ in requests} == {"GET"}


def test_copies_are_found_as_they_are_on_the_disk(server: S3Server, tmp_path: Path) -> None:
    paths = [tmp_path / f"results_{name}.jsonl" for name in "abc"]
    for path, count in zip(paths, (50, 50, 60), strict=True):
        path.write_bytes(rows(count))
        server.put(f"runs/{path.name}", rows(count))
    there = faircount(server, "results", "analyze", "--combine", f"s3://{BUCKET}/runs/*.jsonl", *JSON)
    here = faircount(server, "results", "analyze", "--combine", f"{tmp_path}/*.jsonl", *JSON)
    assert there.out.replace(f"s3://{BUCKET}/runs", str(tmp_path)) == here.out
    assert "F007" in here.out


# -- globs and folders ------------------------------------------------------------------------------------------

TREE = [
    *["a.jsonl", "b.jsonl", "c.txt", ".hidden.jsonl", "1.jsonl", "[1].jsonl", "with space.jsonl", "é.jsonl"],
    *["sub/a.jsonl", "sub/deep/d.jsonl", "sub/.dot/e.jsonl", "other/a.jsonl", "x#y/%41.jsonl"],
]
PATTERNS = [
    *["*.jsonl", "?.jsonl", "[ab].jsonl", "[1].jsonl", "*", "**", "**/*.jsonl", "*/a.jsonl", "*/*.jsonl", "sub/**"],
    *["**/d.jsonl", "s*/d*/*", ".*", "sub/.*/*", "**/.dot/*", "x#y/*", "no*/a.jsonl", "**/deep/**/*.jsonl"],
]


def test_globs_match_what_they_match_on_the_disk(server: S3Server, tmp_path: Path) -> None:
    for name in TREE:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        server.put(f"t/{name}", b"x")
    server.put("t/sub/", b"")
    script = "print(json.dumps([io.list_files(pattern) for pattern in sys.argv[1:]]))"
    found = python(server, script, *(f"s3://{BUCKET}/t/{pattern}" for pattern in PATTERNS))
    for pattern, addresses in zip(PATTERNS, found, strict=True):
        local = [path for path in glob.glob(f"{tmp_path}/{pattern}", recursive=True) if Path(path).is_file()]
        names = sorted(path.removeprefix(f"{tmp_path}/") for path in local)
        assert [one.removeprefix(f"s3://{BUCKET}/t/") for one in addresses] == names, pattern


@pytest.mark.parametrize("folder", ["runs/", "runs", ""])
def test_a_folder_is_the_result_files_in_it(server: S3Server, folder: str) -> None:
    for count, name in enumerate(("results_a.jsonl", "results_b.jsonl", "sub/results_c.jsonl"), 10):
        server.put(f"{folder.rstrip('/')}/{name}".lstrip("/"), rows(count))
    server.put(f"{folder.rstrip('/')}/notes.txt".lstrip("/"), b"hello")
    server.put("runs/", b"")
    done = faircount(server, "results", "analyze", f"s3://{BUCKET}/{folder}", *JSON)
    assert [one["sources"][0]["path"].rpartition("/")[2] for one in json.loads(done.out)["analyses"]] == [
        "results_a.jsonl",
        "results_b.jsonl",
    ]
    assert "skipped, not result files: notes.txt" in done.err


def test_a_run_in_a_file_of_several_has_an_address(server: S3Server) -> None:
    address = server.put("table.csv", (SAMPLES / "table.csv").read_bytes())
    whole = json.loads(faircount(server, "results", "analyze", address, *JSON).out)
    names = [one["sources"][0]["path"] for one in whole["analyses"]]
    assert len(names) > 1
    assert all(name.startswith(f"{address}/") for name in names)
    (one,) = json.loads(faircount(server, "results", "analyze", names[1], *JSON).out)["analyses"]
    assert one == whole["analyses"][1]


# -- a file that changes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [lambda old: old[:-100_000], lambda old: old.replace(b"prompt", b"PROMPT")])
def test_a_file_that_is_replaced_in_the_middle_is_an_error(server: S3Server, large: bytes, other: Any) -> None:
    address = server.put("large.jsonl", large)
    server.replace_after(2, "large.jsonl", other(large) + b"\n")
    done = faircount(server, "results", "analyze", address, *JSON)
    assert done.code == 3
    assert done.out == ""
    assert done.err == f"faircount: {address}: replaced while it was being read; run the command again\n"


def test_a_file_that_is_replaced_after_it_was_listed_is_an_error(server: S3Server) -> None:
    script = """
found = io.list_files(sys.argv[1])
sys.path.insert(0, sys.argv[2])
from tests.s3_server import S3Server
S3Server(int(sys.argv[3])).put("runs/a.jsonl", b"another text")
try:
    print(json.dumps(io.read_range(found[0], 0, 100).decode()))
except io.ReplacedError as error:
    print(json.dumps(str(error)))
"""
    address = server.put("runs/a.jsonl", b"the text that is listed")
    said = python(server, script, f"s3://{BUCKET}/runs/*", str(ROOT), str(server.port))
    assert said == f"{address}: replaced while it was being read; run the command again"


def test_a_later_call_reads_what_is_there_then(server: S3Server) -> None:
    script = """
sys.path.insert(0, sys.argv[2])
from tests.s3_server import S3Server
from faircount import analyze
from faircount.io import object_store
from tests.test_object_stores import rows
object_store.FRESH_SECONDS = 0
found = []
for count in (10, 20, 30):
    for number in range(5):
        S3Server(int(sys.argv[3])).put(f"runs/{number}.jsonl", rows(count + number))
    names = [f"{sys.argv[1]}{number}.jsonl" for number in range(5)]
    found.append([one.sources[0].lines for one in analyze(*names).analyses])
print(json.dumps(found))
"""
    found = python(server, script, f"s3://{BUCKET}/runs/", str(ROOT), str(server.port))
    assert found == [[count + number for number in range(5)] for count in (10, 20, 30)]


def test_the_cache_keeps_nothing_of_an_address(server: S3Server, tmp_path: Path, large: bytes) -> None:
    address = server.put("large.jsonl", large)
    asked = []
    for _ in range(2):
        server.requests()
        faircount(server, "results", "analyze", address, FAIRCOUNT_CACHE=str(tmp_path))
        asked.append(server.requests())
    assert asked[0] == asked[1]
    assert list(tmp_path.iterdir()) == []


# -- what goes wrong --------------------------------------------------------------------------------------------


def test_what_is_not_there_is_said(server: S3Server) -> None:
    server.put("runs/a.jsonl", rows(3))
    for address, message in {
        f"s3://{BUCKET}/runs/b.jsonl": "no such file",
        f"s3://{BUCKET}/runs/*.csv": "no file matches",
        f"s3://{BUCKET}/other/": "no such file",
        "s3://elsewhere/a.jsonl": "there is no s3://elsewhere",
        "s3://elsewhere/*.jsonl": "there is no s3://elsewhere",
        f"s3://{BUCKET}/runs//a.jsonl": "keys with an empty part (//) or one of dots cannot be read",
        "https://example.org/a.jsonl": "no such file; addresses begin with s3://, s3a://, gs://, abfss://",
    }.items():
        done = faircount(server, "results", "analyze", address)
        assert (done.code, done.err) == (3, f"faircount: {address}: {message}\n")


@pytest.mark.parametrize(
    ("status", "code", "exit_code", "message"),
    [
        ("403 Forbidden", "AccessDenied", 3, "the store denies access (AccessDenied); check the credentials"),
        ("400 Bad Request", "ExpiredToken", 3, "the store denies access (ExpiredToken); check the credentials"),
        ("301 Moved Permanently", "PermanentRedirect", 2, "the bucket is in another region; set AWS_REGION"),
        ("503 Slow Down", "SlowDown", 3, "the store cannot answer (SlowDown); try again later"),
    ],
)
def test_refusals_of_the_store_are_sentences_without_secrets(
    server: S3Server, status: str, code: str, exit_code: int, message: str
) -> None:
    server.refuse(status, code)
    for name in ("a.jsonl", "*.jsonl"):
        done = faircount(server, "results", "analyze", f"s3://{BUCKET}/{name}")
        assert done.code == exit_code
        assert done.err.startswith(f"faircount: s3://{BUCKET}/{name}: {message}")
        assert done.err.count("\n") == 1
        assert not any(secret in done.out + done.err for secret in ("AKIA", "secret", "127.0.0.1"))


def test_a_store_that_cannot_be_reached_is_said(server: S3Server) -> None:
    done = faircount(server, "results", "analyze", "s3://bucket/a.jsonl", AWS_ENDPOINT_URL="http://127.0.0.1:9")
    assert done.code == 3
    assert done.err.endswith("the store cannot be reached; check the network and the endpoint\n")


def test_missing_credentials_are_said(server: S3Server) -> None:
    # Where nobody answers for the machine, as on a laptop: the address of that service leads nowhere.
    nobody = {**NO_KEYS, "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9", "HOME": "/nonexistent"}
    done = faircount(server, "results", "analyze", "s3://bucket/a.jsonl", **nobody)
    assert done.code == 2
    assert "no credentials found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in done.err


@pytest.mark.parametrize(
    ("address", "settings", "message"),
    [
        ("s3://bucket/a", {"AWS_SECRET_ACCESS_KEY": None}, "the settings in the environment cannot be used; set AWS_"),
        ("s3://bucket/a", {"AWS_ENDPOINT_URL": "hidden"}, "AWS_ENDPOINT_URL is not the address of a server"),
        (
            "gs://bucket/a",
            {"GOOGLE_APPLICATION_CREDENTIALS": "/none"},
            "the settings in the environment cannot be used",
        ),
        (
            "abfss://runs@account.dfs.core.windows.net/a",
            {"AZURE_STORAGE_ACCOUNT_KEY": "hidden!"},
            "the settings in the environment cannot be used; set AZURE_STORAGE_ACCOUNT_KEY",
        ),
    ],
)
def test_settings_that_cannot_be_used_are_said(
    server: S3Server, address: str, settings: dict[str, str | None], message: str
) -> None:
    done = faircount(server, "results", "analyze", address, **settings)
    assert done.code == 2
    assert done.err.startswith(f"faircount: {address}: {message}")
    assert done.err.count("\n") == 1
    assert "hidden" not in done.err


def test_a_profile_of_the_user_is_used(server: S3Server, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    address = server.put("a.jsonl", rows(3))
    file = tmp_path / "credentials"
    file.write_text("[work]\naws_access_key_id = AKIAPROFILE\naws_secret_access_key = hidden\n")
    known = {**NO_KEYS, "AWS_SHARED_CREDENTIALS_FILE": str(file)}
    assert faircount(server, "results", "analyze", address, AWS_PROFILE="work", **known).code == 0
    done = faircount(server, "results", "analyze", address, AWS_PROFILE="other", **known)
    assert (done.code, done.err) == (2, f"faircount: {address}: the AWS profile cannot be used (ProfileNotFound)\n")


def test_without_the_extra_it_is_named(server: S3Server) -> None:
    script = """
sys.modules["obstore"] = None
from faircount.app.cli import main
code = main(["results", "analyze", "s3://bucket/a.jsonl"])
print(json.dumps(code))
"""
    command = [sys.executable, "-c", f"import json, sys\n{script}"]
    done = subprocess.run(command, env=environment(server), capture_output=True, text=True, timeout=60)
    assert done.stdout == "2\n"
    assert done.stderr == (
        "faircount: s3://bucket/a.jsonl: reading object stores needs the extra: pip install 'faircount[cloud]'\n"
    )


def test_nothing_of_it_is_loaded_for_local_files(server: S3Server, tmp_path: Path) -> None:
    path = tmp_path / "results_x.jsonl"
    path.write_bytes(rows(10))
    script = """
from faircount import analyze
analyze(sys.argv[1])
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in ("obstore", "boto3")]))
"""
    assert python(server, script, str(path)) == []


@pytest.mark.parametrize(
    "words",
    [
        ["analyze", "-o", "s3://bucket/a.html"],
        ["export", "-o", "s3://bucket/a.csv"],
        ["extract", "-o", "s3://bucket/a.jsonl"],
        ["convert-to-excel", "-o", "s3://bucket/a.xlsx"],
    ],
)
def test_nothing_is_written_to_a_store(server: S3Server, tmp_path: Path, words: list[str]) -> None:
    address = server.put("a.jsonl", rows(10))
    server.requests()
    done = faircount(server, "results", words[0], address, *words[1:], HOME=str(tmp_path))
    assert done.code == 2
    assert f"{words[-1]}: object stores are only read; write to a local file and copy it there" in done.err
    assert server.requests() == []


def test_what_is_made_of_an_address_goes_into_the_working_folder(server: S3Server, tmp_path: Path) -> None:
    address = server.put("runs/results_x.jsonl", rows(10))
    command = [sys.executable, "-m", "faircount", "results", "analyze", address, "--output-format", "html"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(server), capture_output=True, text=True, timeout=60)
    assert done.stdout == "results_x_analysis.html\n"
    assert [path.name for path in tmp_path.iterdir()] == ["results_x_analysis.html"]


def test_the_page_refuses_addresses(server: S3Server) -> None:
    done = faircount(server, "view", "s3://bucket/a.jsonl")
    assert done.code == 2
    assert "s3://bucket/a.jsonl: the page looks at local files again and again; copy the file to the disk" in done.err


def test_copies_are_gone_when_a_command_ends(server: S3Server, tmp_path: Path) -> None:
    address = server.put("a.jsonl", rows(10))
    for words in (["analyze", address], ["analyze", address, "--by", "nothing"], ["analyze", f"{address}x"]):
        faircount(server, "results", *words, TMPDIR=str(tmp_path))
        assert list(tmp_path.iterdir()) == []


def test_an_interrupt_does_not_wait_for_the_store(server: S3Server, tmp_path: Path) -> None:
    address = server.put("a.jsonl", rows(10))
    server.stall(30)
    command = [sys.executable, "-m", "faircount", "results", "analyze", address]
    with subprocess.Popen(
        command, env=environment(server, TMPDIR=str(tmp_path)), stderr=subprocess.PIPE, text=True
    ) as process:
        while not server.requests():
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[1] == "faircount: interrupted\n"
        assert time.monotonic() - began < 5
    assert process.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_a_forked_process_says_that_it_cannot_read_and_does_not_hang(server: S3Server) -> None:
    address = server.put("a.jsonl", rows(10))
    script = """
import os
from faircount.core import UsageError
io.size_of(sys.argv[1])
reading, writing = os.pipe()
child = os.fork()
if not child:
    try:
        io.list_files(sys.argv[1].replace("a.jsonl", "*"))
    except UsageError as error:
        os.write(writing, str(error).encode())
    os._exit(0)
os.waitpid(child, 0)
print(json.dumps(os.read(reading, 1000).decode()))
"""
    assert "a forked process cannot read object stores; start it with spawn" in python(server, script, address)


# -- other stores -----------------------------------------------------------------------------------------------


def test_addresses_of_other_stores_are_understood(server: S3Server) -> None:
    """There is no server of theirs here: what is checked is which store and which key an address means."""
    script = """
import os
from faircount.io import object_requests as stores
os.environ["AZURE_STORAGE_ACCOUNT_KEY"] = "bm90IGEga2V5"
os.environ["GOOGLE_SKIP_SIGNATURE"] = "true"
found = []
for address in sys.argv[1:]:
    root, key = stores.bucket_and_key(address)
    store = stores._store(root, address)
    found.append([type(store).__name__, store.config.get("bucket") or store.config.get("container_name"),
        store.config.get("account_name"), key])
print(json.dumps(found))
"""
    addresses = ["gs://my-bucket/runs/a b.jsonl", "abfss://runs@account.dfs.core.windows.net/x/a.jsonl", "s3a://bkt/a"]
    assert python(server, script, *addresses) == [
        ["GCSStore", "my-bucket", None, "runs/a b.jsonl"],
        ["AzureStore", "runs", "account", "x/a.jsonl"],
        ["S3Store", "bkt", None, "a"],
    ]
