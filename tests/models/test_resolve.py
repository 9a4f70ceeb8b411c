"""Models by name."""

import sys
import threading
from dataclasses import replace

import pytest

from penstock.core.errors import ConfigError
from penstock.core.messages import UserMessage
from penstock.models.configured import ConfiguredModel
from penstock.models.model import ModelCard, ModelRequest, TextDelta
from penstock.models.offline import OfflineModel
from penstock.models.providers import ModelConfig
from penstock.models.resolve import MAX_MODELS, LazyModel, ModelRegistry
from penstock.models.scripted import ScriptedModel, say
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.openai import OpenAIModel
from penstock.models.wires.responses import ResponsesModel
from tests.kit.model_server import Canned, delta, events, fake_server

URL = "http://127.0.0.1:1/v1"
LOCAL = ModelConfig(name="local", provider="openai-compatible", model="tiny", base_url=URL)
KEYS = {
    "OPENROUTER_API_KEY": "sk-router",
    "OPENAI_API_KEY": "sk-openai",
    "ANTHROPIC_API_KEY": "sk-anthropic",
}


def test_without_settings_there_is_the_offline_model() -> None:
    models = ModelRegistry()
    assert isinstance(models.get(), OfflineModel)
    assert [card.model_id for card in models.cards()] == ["offline"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("local", OpenAIModel),
        ("ollama:llama3:8b", OpenAIModel),
        ("llama.cpp:any", OpenAIModel),
        ("openai-compatible:other", OpenAIModel),
        ("anthropic:claude-sonnet-4-5", AnthropicModel),
        ("openai:gpt-5-mini", OpenAIModel),
        ("openai-responses:gpt-5-mini", ResponsesModel),
        ("openrouter:some/model", LazyModel),
        ("offline:any", OfflineModel),
    ],
)
def test_a_name_is_an_entry_or_a_provider_and_a_model(name: str, kind: type) -> None:
    models = ModelRegistry([LOCAL], keys=KEYS)
    found = models.get(name)
    assert type(found.model if isinstance(found, ConfiguredModel) else found) is kind
    assert found.card.model_id == name
    assert models.get(name) is found


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("locl", "there is no model 'locl'. Did you mean 'local'? There are offline, local"),
        (
            "openai:gpt",
            "the model 'openai:gpt' needs a key: set the environment variable OPENAI_API_KEY",
        ),
        (
            "anthropic:claude",
            "'anthropic:claude' needs a key: set the environment variable ANTHROPIC_API_KEY",
        ),
        ("own", "the model 'own' needs a key: set the environment variable MY_KEY"),
        ("mine", "'mine' needs a key: set the environment variable ITS_KEY, or remove api_key_env"),
        ("vllm:other", "'vllm:other' needs a key: set the environment variable ITS_KEY, or remove"),
        ("openai:", "there is no model 'openai:': write its name after the colon"),
        ("", "there is no model 'nothing'"),
        ("bare", "needs a base_url, such as http://127.0.0.1:8080/v1"),
        ("nameless", "needs `model`, the name that anthropic has for it"),
        ("cohere:command", "not installed: pip install 'pydantic-ai-slim[cohere]'"),
        ("foo:bar", "the model 'foo:bar' has the unknown provider 'foo'. There are anthropic, "),
        ("antropic:claude", "unknown provider 'antropic'. Did you mean 'anthropic'? There are "),
        (
            "google:gemini",
            "'google:gemini' needs a key: set the environment variable GOOGLE_API_KEY",
        ),
    ],
)
def test_an_unusable_model_reports_the_reason(name: str, message: str) -> None:
    """Unknown: ConfigError naming the nearest. Missing extra: ConfigError that names it."""
    bare = ModelConfig(name="bare", provider="openai-compatible")
    nameless = ModelConfig(name="nameless", provider="anthropic")
    own = ModelConfig(name="own", provider="openai-responses", model="m", key_env="MY_KEY")
    mine = ModelConfig(
        name="mine",
        provider="vllm",
        model="m",
        base_url=URL,
        key_env="ITS_KEY",
        requires_key=True,
    )
    models = ModelRegistry([LOCAL, bare, nameless, own, mine], default="nothing")
    with pytest.raises(ConfigError) as caught:
        models.get(name)
    assert message in str(caught.value)
    assert models.find(name or "nothing") is None


@pytest.mark.parametrize("key", ["sk-of-the-entry", None])
async def test_a_name_without_an_entry_takes_key_and_address_from_an_entry_of_its_provider(
    key: str | None,
) -> None:
    """The key of the provider never goes to the address of the entry."""
    async with fake_server(Canned(events(delta("stop", content="Hi")))) as server:
        entry = ModelConfig(name="mine", provider="openai", base_url=server.url, api_key=key)
        models = ModelRegistry([entry], keys=KEYS)
        asked = ModelRequest(system="", messages=(UserMessage("hi"),))
        said = [event async for event in models.get("openai:gpt-5-mini").stream(asked)]
        await models.close()
    assert said[0] == TextDelta("Hi")
    assert "sk-openai" not in server.heads[0]
    assert ("sk-of-the-entry" in server.heads[0]) is (key is not None)


@pytest.mark.parametrize(
    ("asked", "images", "window", "wire"),
    [
        ("openai-compatible:seeing", True, 9_000, "anthropic"),
        ("openai-compatible:other", False, None, "openai-responses"),
        ("vllm:any", True, None, "openai"),
    ],
)
def test_a_name_takes_what_its_own_entry_says_and_from_others_how_to_reach_the_provider(
    asked: str, *, images: bool, window: int | None, wire: str
) -> None:
    """What another model can do is not known of it; an entry without a model is about a server."""
    first = ModelConfig(
        name="first",
        provider="openai-compatible",
        api="openai-responses",
        model="blind",
        base_url=URL,
        context_tokens=500,
        capabilities={"images": True},
    )
    second = replace(first, name="second", api="anthropic", model="seeing", context_tokens=9_000)
    server = ModelConfig(name="server", provider="vllm", capabilities={"images": True})
    card = ModelRegistry([first, second, server]).get(asked).card
    assert (card.model_id, card.name) == (asked, asked.partition(":")[2])
    assert (card.images, card.context_tokens, card.api) == (images, window, wire)


def test_cards_come_with_the_default_first() -> None:
    models = ModelRegistry([LOCAL, ModelConfig(name="big", provider="anthropic")], default="local")
    assert [card.model_id for card in models.cards()] == ["local", "big", "offline"]


def test_a_provider_that_pydantic_ai_may_know_is_sent_to_no_other_vendor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ConfigError) as caught:
        ModelRegistry().get("xai:grok")
    assert str(caught.value).endswith(
        "vllm, and what else Pydantic AI speaks to: pip install pydantic-ai-slim"
    )


async def test_a_program_may_add_its_own_model() -> None:
    models = ModelRegistry(default="scripted")
    scripted = ScriptedModel([say("hi")])
    models.add(scripted)
    assert models.get() is scripted
    await models.close()


class Closing(ScriptedModel):
    """A model that says whether it was closed, or whose connection breaks then."""

    def __init__(self, name: str, *, breaks: bool) -> None:
        super().__init__([], card=ModelCard(model_id=name, name=name, provider="scripted"))
        self.is_closed = False
        self._breaks = breaks

    async def close(self) -> None:
        """Give the connection back."""
        if self._breaks:
            raise ConnectionError("it broke")
        self.is_closed = True


async def test_a_model_that_fails_to_close_is_logged_and_the_others_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    models, last = ModelRegistry(), Closing("last", breaks=False)
    models.add(Closing("first", breaks=True))
    models.add(last)
    await models.close()
    assert last.is_closed
    assert "the model 'first' could not be closed: it broke" in caplog.text


async def test_names_without_an_entry_are_bounded() -> None:
    models = ModelRegistry([LOCAL])
    for number in range(MAX_MODELS):
        models.get(f"offline:{number}")
    with pytest.raises(ConfigError, match="1000 models are in use, the maximum of one process"):
        models.get("offline:one-more")
    assert models.get(LOCAL.name).card.model_id == LOCAL.name
    await models.close()
    assert models.get("offline:one-more").card.name == "one-more"


def test_no_library_of_a_provider_is_loaded_for_a_name() -> None:
    """No SDK is imported before the first request."""
    loaded = {"pydantic_ai", "anthropic", "openai"} & sys.modules.keys()
    ModelRegistry(keys=KEYS).get("anthropic:claude")
    assert {"pydantic_ai", "anthropic", "openai"} & sys.modules.keys() == loaded


@pytest.mark.parametrize("name", ["opnai:gpt", "odd"])
async def test_providers_of_the_library_are_looked_up_in_a_thread(name: str) -> None:
    """The server continues while the library of the other providers is loaded."""
    asked: list[threading.Thread] = []

    def look(provider: str) -> str:
        asked.append(threading.current_thread())
        return ""

    odd = ModelConfig(name="odd", provider="opnai", model="gpt")
    models = ModelRegistry([LOCAL, odd], problem_of=look)
    for known in ("local", "offline:any", "anthropic:claude", "nobody"):
        await models.look_up(known)
    assert asked == []
    await models.look_up(name)
    assert [each is threading.main_thread() for each in asked] == [False]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (None, False),
        ("offline", False),
        ("local", True),
        ("openai:gpt-5", True),
        ("openai:gpt-4o", False),
        ("anthropic:claude-sonnet-4-5", True),
    ],
)
def test_some_models_have_no_thinking_levels(name: str | None, expected: bool) -> None:
    assert ModelRegistry([LOCAL]).has_thinking(name) is expected
