"""The vocabulary of test files: `from faircount.testing import …`. Its names, fields and defaults are REBEL's.

A test file of REBEL's runs with its imports changed to this module.
"""

from faircount.testing.cases import ParameterGrid, RetryAggregationStrategy, RetryParams, TestGroup, test_case
from faircount.testing.clients import APIClient
from faircount.testing.context import ContextualFScore, ContextualFScoreTemplate
from faircount.testing.deepeval import DeepevalMetric, OpenAIClientLLM
from faircount.testing.guardrail import GuardrailTriggered
from faircount.testing.judge_model import OpenAIClientWrapper
from faircount.testing.judged import JudgeMetric
from faircount.testing.messages import AssistantInput, AssistantOutput, Function, Message, RoleEnum, ToolCall
from faircount.testing.metrics import EvaluationResult, EvaluationVerdict, Metric
from faircount.testing.results import TestCase, TestCaseEvaluated, TestInfo
from faircount.testing.tool_calls import (
    CosineSimilarityToolCallDistance,
    Encoder,
    ExactMatchToolCallDistance,
    ToolCallDistance,
    ToolCallsAccuracy,
)

__all__ = [
    "APIClient",
    "AssistantInput",
    "AssistantOutput",
    "ContextualFScore",
    "ContextualFScoreTemplate",
    "CosineSimilarityToolCallDistance",
    "DeepevalMetric",
    "Encoder",
    "EvaluationResult",
    "EvaluationVerdict",
    "ExactMatchToolCallDistance",
    "Function",
    "GuardrailTriggered",
    "JudgeMetric",
    "Message",
    "Metric",
    "OpenAIClientLLM",
    "OpenAIClientWrapper",
    "ParameterGrid",
    "RetryAggregationStrategy",
    "RetryParams",
    "RoleEnum",
    "TestCase",
    "TestCaseEvaluated",
    "TestGroup",
    "TestInfo",
    "ToolCall",
    "ToolCallDistance",
    "ToolCallsAccuracy",
    "test_case",
]
