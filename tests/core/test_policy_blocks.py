"""A provider's refusal to take a prompt is a block, not an outage: known by its words, and counted alike everywhere."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from tools import policy_blocks_reference

from faircount import Analysis
from faircount.analysis import (
    CheckOptions,
    CompareOptions,
    DatasetComparisonOptions,
    Export,
    ExportOptions,
    Extraction,
    ExtractOptions,
    ShowOptions,
    check_files,
    compare_dataset,
    compare_files,
    find_entries,
)
from faircount.app.notebook import read
from faircount.core import LOOKED_AT, Outcome, pattern_ids, policy_block, words_of
from faircount.core.outcomes import patterns
from faircount.readers import loading
from tests.conftest import Cli, Write, analysis_of, attack, codes, standard
from tests.runs.run_files import HEADER, attempt, case, unanswered

O1_PREVIEW = "data/spikee-v0.1/results_openai_o1-preview-targeted-2024-12-full-prompt_1734786001.jsonl"

FLAGGED = (
    "Error code: 400 - {'error': {'message': 'Invalid prompt: your prompt was flagged as potentially violating our "
    "usage policy. Please try again with a different prompt: https://platform.openai.com/docs/guides/reasoning"
    "#advice-on-prompting', 'type': 'invalid_request_error', 'param': None, 'code': 'invalid_prompt'}}"
)
FILTERED = (
    "Error code: 400 - {'error': {'message': \"The response was filtered due to the prompt triggering Azure OpenAI's "
    "content management policy. Please modify your prompt and retry.\", 'type': None, 'param': 'prompt', 'code': "
    "'content_filter', 'status': 400, 'innererror': {'code': 'ResponsibleAIPolicyViolation', 'content_filter_result': "
    "{'jailbreak': {'filtered': True, 'detected': True}}}}}"
)

REFUSALS: dict[str, tuple[str, ...]] = {
    "openai-usage-policy": (
        FLAGGED,
        '{"error":{"type":"invalid_request_error","code":"invalid_prompt","message":"Invalid prompt: your prompt was '
        'flagged as potentially violating our usage policy.","param":null}}',
        "BadRequestError: Error code: 400 - {'error': {'message': 'Invalid prompt: your \nprompt was flagged as "
        "potentially violating our usage policy. Please try again \nwith a different prompt'",
    ),
    "openai-safety-limit": (
        "Error code: 400 - {'error': {'message': \"Invalid prompt: we've limited access to this content for safety "
        "reasons. This type of information may be used to benefit or to harm people.\", 'code': 'invalid_prompt'}}",
    ),
    "openai-content-policy": (
        '{"error": {"code": "content_policy_violation", "message": "Your request was rejected as a result of our '
        'safety system.", "param": null, "type": "invalid_request_error"}}',
        "{'error': {'code': 'moderation_blocked', 'message': 'Your request was rejected by the safety system.'}}",
    ),
    "azure-content-filter": (
        FILTERED,
        '{"error":{"message":"The response was filtered","type":null,"param":"prompt","code":"content_filter"}}',
        "litellm.BadRequestError: litellm.ContentPolicyViolationError: AzureException - The response was filtered due "
        "to the prompt triggering Azure OpenAI's content management policy.",
        "Azure has not provided the response due to a content filter being triggered",
    ),
    "azure-responsible-ai": ('{"error": {"inner_error": {"code": "ResponsibleAIPolicyViolation"}}}',),
    "openai-content-filter": (
        "Could not parse response content as the request was rejected by the content filter",
        "no content: {'finish_reason': 'content_filter', 'index': 0}",
    ),
    "anthropic-content-filter": (
        'Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"Output blocked by content '
        'filtering policy"},"request_id":"req_011CaxpBxEpLvE6AvvuDD5BW"}',
    ),
    "anthropic-usage-policy": (
        "API Error: Claude is unable to respond to this request, which appears to violate our Usage Policy "
        "(https://www.anthropic.com/legal/aup).",
        "This request triggered restrictions on violative cyber content and was blocked under Anthropic's Usage "
        "Policy.",
    ),
    "anthropic-refusal": ("empty answer: Message(content=[], stop_reason='refusal')",),
    "google-prompt-blocked": (
        "BlockedPromptException: block_reason: SAFETY\nsafety_ratings {\n category: HARM_CATEGORY_HARASSMENT\n}",
        '{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}',
        "Request was blocked by Gemini: BlockedReason.PROHIBITED_CONTENT",
        "blocked: prompt: BlockedReasonProhibitedContent ()",
    ),
    "google-answer-blocked": (
        "index: 0\nfinish_reason: SAFETY\nsafety_ratings {",
        "The model response did not complete successfully.\nFinish reason: 3.\nFinish message: .",
        "Invalid operation: The `response.text` quick accessor requires the response to contain a valid `Part`, but "
        "none were returned. The candidate's [finish_reason](https://ai.google.dev/api/generate-content#finishreason) "
        "is 3.",
        "[GoogleGenerativeAI Error]: Candidate was blocked due to SAFETY",
    ),
    "google-responsible-ai": (
        "400 The prompt could not be submitted. This prompt contains sensitive words that violate Google's "
        "Responsible AI practices.",
    ),
    "bedrock-guardrail": (
        '{"action": "GUARDRAIL_INTERVENED", "outputs": []}',
        "Response blocked by Amazon Bedrock guardrail (stop reason: guardrail_intervened).",
        '{"amazon-bedrock-guardrailAction": "INTERVENED"}',
    ),
    "bedrock-content-filter": (
        "An error occurred (ValidationException) when calling the InvokeModel operation: This request has been "
        "blocked by our content filters.",
        '{"stopReason": "content_filtered", "usage": {"outputTokens": 0}}',
    ),
    "xai-usage-guidelines": (
        "Error code: 403 - {'code': 'The caller does not have permission to execute the specified operation', "
        "'error': 'Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO'}",
    ),
    "deepseek-content-risk": (
        "Error code: 400 - {'error': {'message': 'Content Exists Risk', 'type': 'invalid_request_error'}}",
    ),
    "alibaba-data-inspection": (
        "<400> InternalError.Algo.DataInspectionFailed: Input text data may contain inappropriate content.",
        "Error code: 400 - {'error': {'code': 'data_inspection_failed', 'type': 'data_inspection_failed'}}",
    ),
    "openrouter-moderation": (
        "Error code: 403 - {'error': {'message': 'openai/gpt-4 requires moderation on OpenAI. Your input was flagged "
        "for \"violence\".', 'code': 403}}",
    ),
    "litellm-content-policy": ("litellm.ContentPolicyViolationError: VertexAIException - no",),
    "litellm-guardrail": (
        "Error code: 400 - {'error': {'message': {'error': 'Violated guardrail policy', 'guardrail': 'x'}}}",
    ),
}
"""What providers and their libraries really say, by the pattern that must know it."""

OUTAGES = (
    "",
    "timeout",
    "Request timed out.",
    "Connection error.",
    "Error code: 401 - {'error': {'message': 'Incorrect API key provided: sk-abc***xyz.', 'type': "
    "'invalid_request_error', 'param': None, 'code': 'invalid_api_key'}}",
    "Error code: 403 - {'error': {'message': 'Country, region, or territory not supported', 'code': "
    "'unsupported_country_region_territory'}}",
    "Error code: 401 - {'error': {'message': 'Your access was terminated due to violation of our policies, please "
    "check your email.', 'code': 'access_terminated'}}",
    "Error code: 403 - {'type': 'error', 'error': {'type': 'permission_error', 'message': 'This organization has been "
    "disabled.'}}",
    "Error code: 429 - {'error': {'message': 'You exceeded your current quota, please check your plan and billing "
    "details.', 'type': 'insufficient_quota', 'param': None, 'code': 'insufficient_quota'}}",
    "Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, "
    "Used 29876.', 'type': 'tokens', 'code': 'rate_limit_exceeded'}}",
    "Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}}",
    "An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): Too "
    "many requests, please wait before trying again.",
    "An error occurred (AccessDeniedException) when calling the ApplyGuardrail operation: User is not authorized.",
    "An error occurred (ValidationException) when calling the Converse operation: The guardrail identifier is invalid.",
    "429 RESOURCE_EXHAUSTED. {'error': {'code': 429, 'message': 'Quota exceeded.', 'status': 'RESOURCE_EXHAUSTED'}}",
    "503 UNAVAILABLE. {'error': {'code': 503, 'message': 'The model is overloaded.', 'status': 'UNAVAILABLE'}}",
    "504 Deadline Exceeded",
    "HTTP 503 upstream timeout (code 1)",
    "guardrail API timed out",
    # Azure's filter was down: nothing was refused.
    "{'content_filter_results': {'error': {'code': 'content_filter_error', 'message': 'The contents are not "
    "filtered'}}}",
    # Settings and answers that only speak of filters.
    "Error code: 400 - {'error': {'message': \"Invalid type for 'content_filter': expected an object.\", 'type': "
    "'invalid_request_error', 'param': 'content_filter', 'code': 'invalid_type'}}",
    "Could not parse {'choices': [{'finish_reason': 'stop', 'content_filter_results': {'hate': {'filtered': False, "
    "'severity': 'safe'}}}]}",
    "* GenerateContentRequest.safety_settings[4]: element predicate failed: $.category in "
    "(HarmCategory.HARM_CATEGORY_HATE_SPEECH)",
    "stop_reason: Input should be 'end_turn', 'max_tokens', 'guardrail_intervened' or 'content_filtered'",
    # An answer that was cut at its length, and one that would have repeated a text.
    "Invalid operation: The `response.text` quick accessor requires the response to contain a valid `Part`, but none "
    "were returned. The candidate's [finish_reason](https://ai.google.dev/api/generate-content#finishreason) is 2.",
    "The model response did not complete successfully.\nFinish reason: 2.\nSafety ratings: [category: "
    "HARM_CATEGORY_HATE_SPEECH\nprobability: NEGLIGIBLE",
    "index: 0\nfinish_reason: RECITATION",
    "prompt_feedback { block_reason: BLOCKED_REASON_UNSPECIFIED }",
    # A prompt that cannot be read is not refused.
    "Error code: 400 - {'error': {'message': 'Invalid prompt: expected an array of messages.', 'type': "
    "'invalid_request_error', 'code': 'invalid_prompt'}}",
    "litellm.RateLimitError: BedrockException - Too many tokens. content_policy_fallbacks=None, fallbacks=None. "
    "Received Model Group=claude",
    "No deployments available for selected model. content_policy_fallback=None",
)


# -- the list ---------------------------------------------------------------------------------------------------


def test_every_pattern_has_an_id_a_provider_a_source_and_phrases_as_they_are_compared() -> None:
    for pattern in patterns():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", pattern.id)
        assert pattern.provider and pattern.source and pattern.phrases
        assert all(words_of(phrase) == f" {phrase} " for phrase in pattern.phrases), pattern.id
    assert len(pattern_ids()) == len(patterns())
    phrases = [phrase for pattern in patterns() for phrase in pattern.phrases]
    assert len(set(phrases)) == len(phrases)


def test_every_pattern_has_an_example_here() -> None:
    assert set(REFUSALS) == pattern_ids()


@pytest.mark.parametrize(("pattern", "error"), [(name, text) for name, texts in REFUSALS.items() for text in texts])
def test_a_refusal_is_known_whatever_library_wrote_it_down(pattern: str, error: str) -> None:
    assert policy_block(error) == pattern
    assert policy_block(error.upper()) == pattern
    assert policy_block(json.dumps(error)) == pattern
    assert policy_block(error.replace("'", "\\u0027")) == pattern
    assert policy_block("Traceback (most recent call last):\n" + 1000 * "  File x, line 1\n" + error) == pattern


@pytest.mark.parametrize("error", OUTAGES)
def test_an_outage_is_no_refusal(error: str) -> None:
    assert policy_block(error) is None


@pytest.mark.parametrize("piece", ["finish_reason ", "code: content_", "\\n", "\\", "é", "'code': 'content_filterx' "])
def test_a_long_text_is_looked_at_in_no_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    began = time.perf_counter()
    assert policy_block(text) is None
    assert time.perf_counter() - began < 0.1


def test_only_both_ends_of_a_text_are_looked_at() -> None:
    around = "x " * LOOKED_AT
    assert policy_block(f"{around}{FLAGGED}{around}") is None
    assert policy_block(f"{FLAGGED}{around}{around}") == policy_block(f"{around}{around}{FLAGGED}") is not None


def test_the_page_lists_every_pattern() -> None:
    text = policy_blocks_reference.PAGE.read_text(encoding="utf-8")
    assert text == policy_blocks_reference.page()
    assert all(f"| `{pattern.id}` |" in text for pattern in patterns())


# -- in result files --------------------------------------------------------------------------------------------


def outcomes_of(analysis: Analysis) -> dict[str, int]:
    return {outcome.value: count for outcome in Outcome if (count := getattr(analysis.tally, outcome.value))}


def finding_of(analysis: Analysis) -> str:
    (message,) = [finding.message for finding in analysis.findings if finding.code == "F035"]
    return message


MIXED = [
    standard(1, success=True),
    standard(2),
    standard(3, error=FLAGGED, response=""),
    standard(4, error=FILTERED, response=""),
    standard(5, error="Error code: 429 - {'error': {'message': 'slow down'}}", response=""),
    standard(6, error="blocked", guardrail=True, guardrail_categories={"hate": True}, response=""),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"success": 1, "failure": 1, "error": 1, "guardrail": 3}),
        ({"policy_blocks": False}, {"success": 1, "failure": 1, "error": 3, "guardrail": 1}),
        # spikee counts a trigger among the errors, too.
        ({"definition": "spikee"}, {"success": 1, "failure": 1, "error": 4, "guardrail": 1}),
        ({"definition": "spikee", "policy_blocks": True}, {"success": 1, "failure": 1, "error": 4, "guardrail": 1}),
    ],
)
def test_refusals_are_blocks_unless_they_are_asked_for_as_errors(
    write: Write, options: dict[str, Any], expected: dict[str, int]
) -> None:
    analysis = analysis_of(write(MIXED), **options)
    assert outcomes_of(analysis) == expected
    assert ("F035" in codes(analysis)) is (expected["guardrail"] == 3)


def test_the_finding_says_how_many_by_which_pattern_and_what_the_rate_would_be(write: Write) -> None:
    analysis = analysis_of(write(MIXED))
    assert codes(analysis)["F035"] == 2
    # Answered are a success, a failure, both refusals and the raised guardrail; otherwise only three of them.
    assert finding_of(analysis) == (
        "2 entries whose prompt the provider refused by its policy, counted among the blocks and not among the errors "
        "(azure-content-filter: 1, openai-usage-policy: 1); the rate over answered entries, as in compare, is 20.0% "
        "and would be 33.3% otherwise; the rates over all and over judged entries are the same either way"
    )
    (finding,) = [finding for finding in analysis.findings if finding.code == "F035"]
    assert [place.rpartition(":")[2] for place in finding.where] == ["3", "4"]


def test_what_the_finding_says_of_the_rates_is_true(write: Write) -> None:
    path = write(MIXED)
    blocks, errors = analysis_of(path), analysis_of(path, policy_blocks=False)
    assert blocks.rates.asr == errors.rates.asr
    assert blocks.rates.asr_judged == errors.rates.asr_judged
    rates = []
    for policy_blocks in (True, False):
        options = CompareOptions(policy_blocks=policy_blocks, flips=0)
        rates.append(compare_files([path, write([standard(1)], "other.jsonl")], options).files[0].rate.value)
    assert rates == [pytest.approx(1 / 5), pytest.approx(1 / 3)]


def test_the_pattern_is_named_among_the_categories_of_guardrails(write: Write) -> None:
    named = {c.category: c.entries for c in analysis_of(write(MIXED)).guardrail_categories}
    assert named == {"azure-content-filter": 1, "hate": 1, "openai-usage-policy": 1}


def test_without_any_answer_the_rate_otherwise_is_undefined(write: Write) -> None:
    assert "is 0.0% and would be undefined otherwise" in finding_of(analysis_of(write([standard(1, error=FLAGGED)])))


def test_a_success_stands_and_a_guardrail_that_raised_needs_no_pattern(write: Write) -> None:
    analysis = analysis_of(
        write([standard(1, success=True, error=FLAGGED), standard(2, error=FILTERED, guardrail=True, response="")])
    )
    assert outcomes_of(analysis) == {"success": 1, "guardrail": 1}
    assert {"F021"} <= codes(analysis).keys() and "F035" not in codes(analysis)


def test_a_row_without_a_verdict_is_a_block_too(write: Write) -> None:
    assert outcomes_of(analysis_of(write([standard(1, success=None, error=FLAGGED)]))) == {"guardrail": 1}


def test_blocks_inside_an_attack_count_once_for_their_entry(write: Write) -> None:
    history = [{"success": False, "error": FLAGGED}, {"success": False, "error": FLAGGED}]
    lost = [*history, {"success": False, "error": "HTTP 503"}]
    path = write(
        [
            standard(1, error=FLAGGED, response=""),
            attack(1, attempts=2, attempt_history=history),
            standard(2, error=FLAGGED, response=""),
            attack(2, attempts=3, attempt_history=lost),
        ]
    )
    analysis = analysis_of(path)
    assert outcomes_of(analysis) == {"guardrail": 1, "error": 1}
    assert codes(analysis)["F035"] == 1
    assert analysis.dynamic is not None and analysis.dynamic.attacks[0].guardrail == 4
    otherwise = analysis_of(path, policy_blocks=False)
    assert outcomes_of(otherwise) == {"error": 2}
    assert otherwise.dynamic is not None and otherwise.dynamic.attacks[0].guardrail == 0


def test_an_error_in_a_history_is_no_block_for_having_the_words_of_a_row_that_a_run_called_one(write: Write) -> None:
    path = write(
        [
            standard(1, error="no answer", policy_block="azure-content-filter", response=""),
            attack(1, attempt_history=[{"success": False, "error": "no answer"}]),
        ]
    )
    assert outcomes_of(analysis_of(path)) == {"error": 1}


def test_kinds_of_error_leave_out_what_is_a_block(write: Write) -> None:
    path = write(MIXED)
    assert [(kind.kind, kind.rows) for kind in analysis_of(path).errors] == [("429: slow down", 1)]
    kinds = {kind.kind.partition(":")[0]: kind.rows for kind in analysis_of(path, policy_blocks=False).errors}
    assert kinds == {"400 invalid_prompt": 1, "400 content_filter": 1, "429": 1}


@pytest.mark.shared
def test_the_published_run_of_o1_preview_has_106_blocks_and_2_errors(shared: Path) -> None:
    path = str(shared / O1_PREVIEW)
    analysis = analysis_of(path)
    assert outcomes_of(analysis) == {"success": 413, "failure": 435, "guardrail": 106, "error": 2}
    assert "(openai-usage-policy: 106)" in finding_of(analysis)
    assert "is 43.3% and would be 48.7% otherwise" in finding_of(analysis)  # 413 of 954, 413 of 848
    assert [(kind.kind[:24], kind.rows) for kind in analysis.errors] == [("429 insufficient_quota: ", 2)]
    # What spikee itself says of this file, in the page that is published beside it.
    published = Path(path.replace(".jsonl", "_analysis.html")).read_text(encoding="utf-8")
    assert re.search(r"Errors:\D*108\D", published)
    for options in ({"policy_blocks": False}, {"definition": "spikee"}):
        assert outcomes_of(analysis_of(path, **options)) == {"success": 413, "failure": 435, "error": 108}


# -- wherever outcomes are counted --------------------------------------------------------------------------------


def extracted(path: str, **options: Any) -> int:
    with Extraction([path], ExtractOptions(**options)) as extraction:
        return sum(1 for _ in extraction.lines()) and extraction.matched


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("category", "blocks", "errors"), [("guardrail", 3, 1), ("error", 1, 3), ("errors", 1, 3), ("no-guardrail", 3, 5)]
)
def test_extract_chooses_rows_as_they_are_counted(
    write: Write, category: str, blocks: int, errors: int, clean: bool
) -> None:
    path = write(MIXED if clean else [*MIXED, "{torn"])
    assert extracted(path, category=category) == blocks
    assert extracted(path, category=category, policy_blocks=False) == errors


def test_extract_by_spikees_definition_knows_no_policy(write: Write) -> None:
    assert extracted(write(MIXED), category="error", definition="spikee") == 4
    assert extracted(write(MIXED), where="outcome = guardrail", definition="spikee") == 1


@pytest.mark.parametrize(("policy_blocks", "expected"), [(True, 3), (False, 1)])
def test_outcomes_in_queries_and_tables_follow_the_option(write: Write, policy_blocks: bool, expected: int) -> None:
    path = write(MIXED)
    assert extracted(path, where="outcome = guardrail", policy_blocks=policy_blocks) == expected
    for entries in (True, False):
        options = ExportOptions(entries=entries, columns=("id", "outcome"), policy_blocks=policy_blocks)
        with Export([path], options) as table:
            assert Counter(str(cells[1]) for cells in table.rows())["guardrail"] == expected
    found = read(path, policy_blocks=policy_blocks)
    assert Counter(entry["outcome"] for entry in found.entries())["guardrail"] == expected
    assert found.summary().tally.guardrail == expected


def test_the_option_works_on_every_command_that_counts(write: Write, cli: Cli, tmp_path: Path) -> None:
    path, other = write(MIXED), write([standard(n, success=True) for n in range(1, 7)], "results_b.jsonl")
    for words in (["analyze", path], ["compare", path, other], ["show", "3", path], ["check", path]):
        with_blocks, without = (cli("results", *words, *more) for more in ([], ["--no-policy-blocks"]))
        assert (with_blocks.code, without.code) == (0, 0)
        assert with_blocks.out != without.out
    ran = cli("results", "extract", path, "--category", "error", "--no-policy-blocks", "-o", str(tmp_path / "e.jsonl"))
    assert "Extracted 3 of 6 rows" in ran.out
    ran = cli("results", "export", path, "--columns", "outcome", "--to", "csv", "-o", "-", "--no-policy-blocks")
    assert Counter(ran.out.split())["error"] == 3


def test_the_workbook_says_the_same_in_rows_and_analysis(write: Write, cli: Cli, tmp_path: Path) -> None:
    path = write(MIXED)
    for words, blocks in (([], 3), (["--no-policy-blocks"], 1)):
        book = tmp_path / f"{blocks}.xlsx"
        assert cli("results", "convert-to-excel", path, "-o", str(book), *words).code == 0
        sheets = [list(sheet.values) for sheet in load_workbook(book).worksheets]
        (rows,) = [sheet for sheet in sheets if "outcome" in sheet[0]]
        assert Counter(row[rows[0].index("outcome")] for row in rows[1:])["guardrail"] == blocks
        told = [row for sheet in sheets for row in sheet if row and row[0] == "Guardrail triggers"]
        assert told[0][1] == blocks


def test_datasets_checks_and_single_entries_follow_the_option(write: Write) -> None:
    path = write(MIXED)
    dataset = write([{"id": n, "content": f"prompt {n}"} for n in range(1, 7)], "dataset.jsonl")
    for policy_blocks, blocks in ((True, 3), (False, 1)):
        options = DatasetComparisonOptions(policy_blocks=policy_blocks, cache=False)
        (target,) = compare_dataset(dataset, [path], options).result.targets
        assert target.entries.guardrail == blocks
        found = check_files([path], CheckOptions(policy_blocks=policy_blocks)).findings
        assert ("F035" in {finding.code for finding in found}) is policy_blocks
        (entry,) = find_entries("3", [path], ShowOptions(policy_blocks=policy_blocks)).entries
        assert entry.outcome is (Outcome.GUARDRAIL if policy_blocks else Outcome.ERROR)
        assert entry.attempts[0].guardrail_categories == (("openai-usage-policy",) if policy_blocks else ())


def test_an_entry_shows_requests_of_its_history_as_they_are_counted(write: Write) -> None:
    path = write([standard(1), attack(1, attempt_history=[{"success": False, "error": FLAGGED}])])
    for policy_blocks, state in ((True, Outcome.GUARDRAIL), (False, Outcome.ERROR)):
        (entry,) = find_entries("1", [path], ShowOptions(policy_blocks=policy_blocks)).entries
        line = entry.attempts[1].recorded
        assert line is not None and line.history is not None and line.history[0].state is state


def test_rejudge_leaves_refused_rows_alone_because_they_were_blocked(write: Write, cli: Cli) -> None:
    ran = cli("results", "rejudge", write(MIXED), "--judge", "refusal", "--output-format", "json")
    assert ran.code == 0, ran.err
    left = json.loads(ran.out)["files"][0]["left_alone"]
    assert (left["blocked"], left["error"]) == (3, 1)


@pytest.mark.parametrize("alone", [True, False])
def test_the_cache_keeps_both_readings_apart(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, alone: bool
) -> None:
    monkeypatch.setenv("FAIRCOUNT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(loading, "CACHED_FROM_BYTES", 0)
    monkeypatch.setattr(loading, "ONE_BY_ONE_UP_TO_ROWS", 0)
    path = write(MIXED)
    paths = [path] if alone else [path, write([standard(9)], "results_b.jsonl")]
    for _ in range(2):
        assert analysis_of(*paths, combine=not alone).tally.guardrail == 3
        assert analysis_of(*paths, combine=not alone, policy_blocks=False).tally.guardrail == 1
    assert len(list((tmp_path / "cache").glob("*-*-*"))) == 2 * len(paths)


# -- in journals and reports of tests ---------------------------------------------------------------------------


def refused(name: str, **error: Any) -> dict[str, Any]:
    return unanswered(name) | {"error": {"kind": "blocked", "message": "no", **error}}


def test_a_test_that_the_provider_refused_is_blocked_and_an_outage_beside_it_an_error(write: Write) -> None:
    told: dict[str, Any] = {"policy_block": "openai-usage-policy"}
    journal = [HEADER, case("a"), refused("a", **told), case("b"), attempt("b", 0, "p"), case("c", count=2)]
    path = write([*journal, refused("c", **told), unanswered("c", 1), case("d"), unanswered("d", message=FLAGGED)])
    analysis = analysis_of(path)
    assert outcomes_of(analysis) == {"success": 1, "guardrail": 2, "error": 1}
    assert codes(analysis)["F035"] == 2
    assert outcomes_of(analysis_of(path, policy_blocks=False)) == {"success": 1, "error": 3}


def test_a_test_that_a_guardrail_stopped_is_blocked_whatever_is_asked(write: Write) -> None:
    path = write([HEADER, case("a"), refused("a", categories=["hate"])])
    for policy_blocks in (True, False):
        analysis = analysis_of(path, policy_blocks=policy_blocks)
        assert outcomes_of(analysis) == {"guardrail": 1}
        assert [c.category for c in analysis.guardrail_categories] == ["hate"]


def test_a_recorded_pattern_that_nobody_knows_is_no_pattern(write: Write) -> None:
    path = write([standard(1, error="HTTP 400", policy_block="of-the-future"), standard(2, error="x", policy_block=7)])
    assert outcomes_of(analysis_of(path)) == {"error": 2}
