"""Whether an answer says what its context says: REBEL's metric, asked with our questions or those of a template."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from faircount.judges.builtin.llm import ContextualFScore as ContextualJudge
from faircount.judges.builtin.llm import StatementCounts, f_score, precision_and_recall
from faircount.judges.judge import verdict_of
from faircount.judges.model_judge import Form, OffMenu, object_schema
from faircount.testing.fields import Declared
from faircount.testing.judge_model import OpenAIClientWrapper
from faircount.testing.judged import attempt_from, result_of
from faircount.testing.messages import AssistantInput, AssistantOutput, text_of
from faircount.testing.metrics import EvaluationResult, EvaluationVerdict, Metric

_WORDS = ("yes", "idk", "dm", "no")
_ROUNDING = 1e-9
_JSON = "Answer with one JSON object and nothing else: %s."


class ContextualFScoreTemplate(Declared, abc.ABC):
    """The questions that a model is asked, where they are to be others than ours; each method returns a prompt."""

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
    """Passes if the answer covers its context and adds nothing to it: the F-score is `threshold` at least.

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
        """Make the client now: a missing key is told before any work begins."""
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
