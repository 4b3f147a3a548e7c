"""Which provider speaks with the server: the one built in, or one of another package.

A package adds a provider by an entry point in the group `faircount.chat`:

    [project.entry-points."faircount.chat"]
    bedrock = "my_package.chat:Bedrock"

The class is made with `ChatSettings`, and has `where`, `ask` and `close` as `faircount.chat.provider.Provider` says.
Settings name it: `provider = "bedrock"`, and so does a target: `--target bedrock`. It makes single tries; the client
repeats them, keeps limits, counts costs and keeps answers.
"""

from __future__ import annotations

from importlib import metadata

from faircount.chat.openai import OpenAI
from faircount.chat.provider import Provider
from faircount.core.errors import UsageError
from faircount.core.text import clip, visible

GROUP = "faircount.chat"
BUILT_IN: dict[str, type[Provider]] = {"openai": OpenAI}
LITELLM = "litellm"


def provider_names() -> list[str]:
    """Return the names of all providers: those built in first."""
    found = sorted({entry.name for entry in metadata.entry_points(group=GROUP)} - {*BUILT_IN, LITELLM})
    return [*BUILT_IN, LITELLM, *found]


def find_provider(name: str) -> type[Provider]:
    """Return the class of a provider; what is built in cannot be replaced."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    if name == LITELLM:
        from faircount.chat.litellm import LiteLLM

        return LiteLLM
    found = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(visible(known) for known in sorted(provider_names()))
        raise UsageError(f'chat: no such provider: "{clip(visible(name), 60)}"; available: {known}')
    provider = found[name].load()
    if not callable(getattr(provider, "ask", None)):
        raise UsageError(f'chat: the provider "{visible(name)}" has no method ask; it cannot be used')
    chosen: type[Provider] = provider
    return chosen
