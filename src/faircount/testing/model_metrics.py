"""Metrics that ask a model, configured as REBEL's client is: the contextual F-score, and DeepEval's metrics.

A key in the configuration is taken into memory and goes to the server alone: it is shown nowhere and written nowhere.
It is better to name the environment variable that holds it, as `api_key_env`. DeepEval is needed when a model is made,
not before.
"""

from __future__ import annotations

import abc
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from faircount.compat.deepeval import DeepEvalModel, measure
from faircount.components.code import version_of
from faircount.core.errors import UsageError
from faircount.judges.builtin.llm import ContextualFScore as ContextualJudge
from faircount.judges.builtin.llm import StatementCounts, f_score, precision_and_recall
from faircount.judges.judge import verdict_of
from faircount.judges.model_judge import Form, OffMenu, Questioner, object_schema
from faircount.testing.cases import AssistantInput, AssistantOutput, text_of
from faircount.testing.fields import SECRET, Declared, is_secret, plain
from faircount.testing.metrics import EvaluationResult, EvaluationVerdict, JudgedResult, Metric, attempt_from, result_of

if TYPE_CHECKING:
    from faircount.chat.client import ChatClient
    from faircount.chat.settings import ChatSettings

_KNOWN = ("api_key", "api_key_env", "base_url", "model", "temperature", "max_tokens", "timeout")
_VARIABLE = "FAIRCOUNT_KEY_OF_A_METRIC"
_environment = threading.Lock()


class OpenAIClientWrapper:
    """A model behind an OpenAI-compatible server, configured by a dictionary.

    `model` is required. `base_url` is OpenAI's by default, and the key is in `api_key` or in the environment variable
    `api_key_env` (OPENAI_API_KEY by default). `temperature`, `max_tokens` and `timeout` are optional.
    """

    def __init__(self, config: Mapping[str, Any], *, owner: str = "OpenAIClientWrapper") -> None:
        if not isinstance(config, Mapping):
            raise TypeError(f"{owner} takes a dictionary, not {type(config).__name__}")
        for name in config:
            if name not in _KNOWN:
                raise TypeError(f"{owner} has no parameter {name}; it takes {', '.join(_KNOWN)}")
        if not isinstance(config.get("model"), str) or not config["model"]:
            raise TypeError(f"{owner} needs model, the name of a model")
        self._config = {name: value for name, value in config.items() if value is not None}
        self._client: ChatClient | None = None
        self._lock = threading.Lock()
        _ = self.settings  # a wrong value is told now

    @property
    def settings(self) -> ChatSettings:
        """How to reach the model; the key is no part of it."""
        from faircount.chat.settings import ChatSettings

        given = self._config
        words = {name: given[name] for name in ("base_url", "model", "timeout", "api_key_env") if name in given}
        if "api_key" in given:
            words["api_key_env"] = _VARIABLE
        parameters = {name: given[name] for name in ("max_tokens",) if name in given}
        return ChatSettings(**words, parameters=parameters)

    @property
    def temperature(self) -> float | None:
        """The temperature that is asked for; None sends none."""
        value = self._config.get("temperature")
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError("OpenAIClientWrapper: temperature must be a number")
        return value

    def client(self) -> ChatClient:
        """Return the client, made when it is first needed."""
        from faircount.chat.client import ChatClient

        with self._lock:
            if self._client is None:
                key = self._config.get("api_key")
                if key is None:
                    self._client = ChatClient(self.settings)
                else:
                    self._client = _made_with(str(key), self.settings)
            return self._client

    def close(self) -> None:
        """Close the client, if there is one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def generate(self, messages: Sequence[Mapping[str, Any]]) -> Any:
        """Return an answer in the shape of OpenAI's completions: `.choices[0].message.content`."""
        answer = self.client().ask_now(messages, parameters={"temperature": self.temperature})
        message = SimpleNamespace(role="assistant", content=answer.text)
        usage = SimpleNamespace(prompt_tokens=answer.prompt_tokens, completion_tokens=answer.completion_tokens)
        choice = SimpleNamespace(index=0, message=message, finish_reason=answer.finish_reason)
        return SimpleNamespace(choices=[choice], model=answer.model, usage=usage)

    def generate_instructed(self, messages: Sequence[Mapping[str, Any]], response_model: Any) -> Any:
        """Return an answer as an object of a pydantic model."""
        schema = response_model.model_json_schema()
        key = next(iter(schema.get("properties", {})), "")

        def read(answer: Mapping[str, Any]) -> Any:
            try:
                return response_model.model_validate(dict(answer))
            except ValueError as error:
                raise OffMenu(f"it does not fit: {str(error).splitlines()[0]}") from None

        return self.ask(messages, Form(response_model.__name__, key, schema, read))

    def ask(self, messages: Sequence[Mapping[str, Any]], form: Form[Any]) -> Any:
        """Return an answer of a form, or raise a ValueError that says why there is none."""
        questioner = Questioner(self.settings, self.temperature)
        questioner.ask_with(self.client())
        reply = questioner.ask(messages, form)
        if reply.value is None:
            raise ValueError(reply.problem)
        return reply.value

    def _recorded(self) -> Mapping[str, Any]:
        return self._config

    def __repr__(self) -> str:
        shown = {name: SECRET if is_secret(name) else plain(value) for name, value in self._config.items()}
        return f"OpenAIClientWrapper({shown!r})"


def _made_with(key: str, settings: ChatSettings) -> ChatClient:
    """Return a client that knows the key; clients read it from the environment, where it stands for this moment."""
    from faircount.chat.client import ChatClient

    with _environment:
        os.environ[_VARIABLE] = key
        try:
            return ChatClient(settings)
        finally:
            del os.environ[_VARIABLE]


# -- whether an answer says what its context says -----------------------------------------------------------------


_WORDS = ("yes", "idk", "dm", "no")
_ROUNDING = 1e-9
_JSON = "Answer with one JSON object and nothing else: %s."


class ContextualFScoreTemplate(Declared, abc.ABC):
    """Your own questions to the model, instead of ours; each method returns a prompt."""

    @abc.abstractmethod
    def generate_claims(self, actual_output: str) -> str:
        """Return the question for the claims of an answer."""

    @abc.abstractmethod
    def generate_truths(self, retrieval_context: list[str], input_question: str) -> str:
        """Return the question for the truths of a context."""

    @abc.abstractmethod
    def generate_hallucination_verdicts(self, claims: list[str], retrieval_context: list[str]) -> str:
        """Return the question which claims the context bears out."""

    @abc.abstractmethod
    def generate_completeness_verdicts(self, truths: list[str], claims: list[str]) -> str:
        """Return the question which truths the claims cover."""


class ContextualFScore(Metric):
    """Passes if the answer covers its context and adds nothing to it: if the F-score is at least `threshold`.

    With a `template` its four questions are asked, and counted as REBEL does (`definition="rebel"`). Without one, the
    judge `contextual-f-score` asks, and `definition` chooses how it counts; "statements" keeps claims and truths apart.
    The context is that of the answer, or else the expected one.
    """

    beta: float = 1.0
    threshold: float = 0.7
    strict_mode: bool = True
    model: OpenAIClientWrapper
    template: Any = None
    definition: str | None = None

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002
        """Check the parameters."""
        if isinstance(self.model, Mapping):
            self.model = OpenAIClientWrapper(self.model)
        if not isinstance(self.model, OpenAIClientWrapper):
            raise TypeError(f"ContextualFScore: model must be an OpenAIClientWrapper, not {type(self.model).__name__}")
        if self.definition is None:
            self.definition = "statements" if self.template is None else "rebel"
        if self.template is not None and self.definition != "rebel":
            raise ValueError('ContextualFScore: a template needs the definition "rebel"')
        self._judge = ContextualJudge(
            beta=self.beta,
            threshold=self.threshold,
            strict=self.strict_mode,
            definition=self.definition,
            temperature=self.model.temperature,
            chat=self.model.settings,
        )

    def measure(
        self,
        input: AssistantInput,  # noqa: A002
        expected: AssistantOutput,
        actual: AssistantOutput,
    ) -> EvaluationResult:
        """Ask the model about both sides, and compare them."""
        self.ready()
        if self.template is None:
            return result_of(verdict_of(self._judge, attempt_from(input, expected, actual)))
        context = list(actual.context or expected.context or ())
        if not context:
            raise ValueError("no context to compare with")
        question = text_of(input.messages[-1].content) if input.messages else ""
        return self._decided(self._counted(context, question, actual.output or ""))

    def _counted(self, context: list[str], question: str, answer: str) -> StatementCounts:
        template = self.template
        truths = self._texts("truths", template.generate_truths(retrieval_context=context, input_question=question))
        claims = self._texts("claims", template.generate_claims(actual_output=answer))
        of_claims = template.generate_hallucination_verdicts(claims=claims, retrieval_context=context)
        of_truths = template.generate_completeness_verdicts(truths=truths, claims=claims)
        return StatementCounts(self._verdicts(of_claims), self._verdicts(of_truths))

    def _texts(self, name: str, prompt: str) -> list[str]:
        return list(self._asked(prompt, f'{{"{name}": ["…", "…"]}}', _texts_form(name)))

    def _verdicts(self, prompt: str) -> Counter[str]:
        shape = '{"verdicts": [{"verdict": "yes", "reason": "…"}, …]}, with the verdicts yes, idk, dm and no'
        return Counter(self._asked(prompt, shape, _VERDICTS))

    def _asked(self, prompt: str, shape: str, form: Form[tuple[str, ...]]) -> tuple[str, ...]:
        messages = [{"role": "system", "content": _JSON % shape}, {"role": "user", "content": str(prompt)}]
        answer: tuple[str, ...] = self.model.ask(messages, form)
        return answer

    def _decided(self, counts: StatementCounts) -> EvaluationResult:
        precision, recall = precision_and_recall(counts, "rebel", "neither")
        score = f_score(precision or 0.0, recall or 0.0, self.beta)
        passed = score >= self.threshold - _ROUNDING
        return EvaluationResult(
            score=score if passed or not self.strict_mode else 0.0,
            verdict=EvaluationVerdict.PASSED if passed else EvaluationVerdict.FAILED,
            reason=f"F {score:.3f}: precision {precision or 0.0:.3f}, recall {recall or 0.0:.3f}",
        )

    def get_name(self) -> str:
        """Return REBEL's name."""
        return "Contextual F-score"

    def ready(self) -> None:
        """Make the client now, so that a missing key is reported before any work begins."""
        self._judge.ask_with(self.model.client())

    def close(self) -> None:
        """Close the client; several metrics may share a model, and it makes another client when it is asked again."""
        self.model.close()

    def _code_version(self) -> str:
        return ContextualJudge.version


def _texts_form(name: str) -> Form[tuple[str, ...]]:
    def read(answer: Mapping[str, Any]) -> tuple[str, ...]:
        texts = answer[name]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise OffMenu(f'"{name}" is not a list of texts')
        return tuple(texts)

    return Form(name, name, object_schema(**{name: {"type": "array", "items": {"type": "string"}}}), read)


def _read_verdicts(answer: Mapping[str, Any]) -> Sequence[str]:
    verdicts = answer["verdicts"]
    if not isinstance(verdicts, list):
        raise OffMenu('"verdicts" is not a list')
    words = [str(item.get("verdict") if isinstance(item, Mapping) else item).strip().lower() for item in verdicts]
    if any(word not in _WORDS for word in words):
        raise OffMenu(f'"verdicts" holds other words than {", ".join(_WORDS)}')
    return tuple(words)


_VERDICT = {
    "type": "object",
    "properties": {"verdict": {"type": "string", "enum": list(_WORDS)}, "reason": {"type": "string"}},
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}
_VERDICTS: Form[Any] = Form(
    "verdicts", "verdicts", object_schema(verdicts={"type": "array", "items": _VERDICT}), _read_verdicts
)


# -- DeepEval's metrics -------------------------------------------------------------------------------------------


class OpenAIClientLLM(DeepEvalModel):
    """A model for DeepEval's metrics, configured by a dictionary like that of `OpenAIClientWrapper`."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._wrapper = OpenAIClientWrapper(config, owner="OpenAIClientLLM")
        super().__init__(config["model"], self._wrapper.client, {"temperature": self._wrapper.temperature})

    def ready(self) -> None:
        """Make the client now, so that a missing key is reported before any work begins."""
        self._wrapper.client()

    def close(self) -> None:
        """Close the client, if there is one; another is made when the model is asked again."""
        self._wrapper.close()

    def _recorded(self) -> Mapping[str, Any]:
        return self._wrapper._recorded()


class DeepevalMetric(Metric):
    """Base class of metrics that wrap one of DeepEval's, which `get_deepeval_metric` creates for each answer."""

    judge_llm: OpenAIClientLLM

    def model_post_init(self, context: Any, /) -> None:  # noqa: ARG002
        """Check the model."""
        given: Any = self.judge_llm
        self.judge_llm = OpenAIClientLLM(given) if isinstance(given, Mapping) else given
        if not isinstance(self.judge_llm, OpenAIClientLLM):
            name = type(self).__name__
            raise TypeError(f"{name}: judge_llm must be an OpenAIClientLLM, not {type(given).__name__}")

    @abc.abstractmethod
    def get_deepeval_metric(self) -> Any:
        """Return a new metric of DeepEval's, with `self.judge_llm` as its model."""

    def measure(
        self,
        input: AssistantInput,  # noqa: A002
        expected: AssistantOutput,
        actual: AssistantOutput,
    ) -> EvaluationResult:
        """Measure an answer; it passes if DeepEval calls it a success."""
        metric = self.get_deepeval_metric()
        usage = measure(metric, attempt_from(input, expected, actual))
        if metric.success is None:
            raise ValueError("the metric has no threshold to decide by")
        verdict = EvaluationVerdict.PASSED if metric.success else EvaluationVerdict.FAILED
        return JudgedResult(score=metric.score, verdict=verdict, reason=metric.reason, usage=usage)

    def ready(self) -> None:
        """Raise UsageError now if the model lacks something."""
        self.judge_llm.ready()

    def close(self) -> None:
        """Close the model; several metrics may share it."""
        self.judge_llm.close()

    def _code_version(self) -> str:
        return f"deepeval {version_of('deepeval')}"
