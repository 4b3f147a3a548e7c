"""The vocabulary of test files: `from faircount.testing import …`. Its names, fields and defaults are REBEL's.

A test file of REBEL's runs with its imports changed to this module.
"""

from faircount.testing.cases import (
    APIClient,
    AssistantInput,
    AssistantOutput,
    Function,
    GuardrailTriggered,
    Message,
    ParameterGrid,
    RetryAggregationStrategy,
    RetryParams,
    RoleEnum,
    TestGroup,
    ToolCall,
    test_case,
)
from faircount.testing.metrics import (
    CosineSimilarityToolCallDistance,
    Encoder,
    EvaluationResult,
    EvaluationVerdict,
    ExactMatchToolCallDistance,
    JudgeMetric,
    Metric,
    TestCase,
    TestCaseEvaluated,
    TestInfo,
    ToolCallDistance,
    ToolCallsAccuracy,
)
from faircount.testing.model_metrics import (
    ContextualFScore,
    ContextualFScoreTemplate,
    DeepevalMetric,
    OpenAIClientLLM,
    OpenAIClientWrapper,
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
