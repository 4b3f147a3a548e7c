"""A provider's refusal to take a prompt is known by its words, and an outage is none."""

from __future__ import annotations

import json
import re
import time

import pytest

from faircount.policy_blocks import LOOKED_AT, pattern_ids, patterns, policy_block, words_of

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
