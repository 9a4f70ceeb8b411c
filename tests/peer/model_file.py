"""A model file of half a megabyte with random weights: its answers are noise, its server real."""

from collections.abc import Iterator

import numpy as np
from gguf import GGUFWriter

WIDTH, LAYERS, HEADS, KEY_HEADS, INNER, CONTEXT = 64, 2, 4, 2, 128, 4096
UNKNOWN, CONTROL, USER_DEFINED, NORMAL, BYTE = 2, 3, 4, 1, 6
"""Kinds of tokens."""
OPENING = "<tool_call>\n"
"""The token that opens a call."""
EAGERNESS = 16.0
"""How gladly the model opens one: random weights alone would never do it."""

TEMPLATE = r"""
{%- macro turn(role, text) -%}
<|im_start|>{{ role }}{{ '\n' }}{{ text }}<|im_end|>{{ '\n' }}
{%- endmacro -%}
{%- set first = messages[0] if messages and messages[0].role == 'system' else none -%}
{%- set lead = first.content if first else '' -%}
{%- if tools -%}
  {%- set said = namespace(text=lead + '\nTools, a schema a line:\n<tools>') -%}
  {%- for tool in tools -%}
    {%- set said.text = said.text + '\n' + (tool | tojson) -%}
  {%- endfor -%}
  {{- turn('system', said.text + '\n</tools>\nTo call one:\n<tool_call>\n'
      + '{"name": NAME, "arguments": OBJECT}\n</tool_call>') -}}
{%- elif lead -%}
  {{- turn('system', lead) -}}
{%- endif -%}
{%- for message in messages -%}
  {%- if message.role == 'tool' -%}
    {{- turn('user', '<tool_response>\n' + (message.content or '') + '\n</tool_response>') -}}
  {%- elif message.role == 'assistant' and message.tool_calls -%}
    {%- set said = namespace(text=message.content or '') -%}
    {%- for call in message.tool_calls -%}
      {%- set asked = call.function if call.function is defined else call -%}
      {%- set given = asked.arguments -%}
      {%- set given = given if given is string else given | tojson -%}
      {%- set said.text = said.text + '\n<tool_call>\n{"name": "' + asked.name
          + '", "arguments": ' + given + '}\n</tool_call>' -%}
    {%- endfor -%}
    {{- turn('assistant', said.text) -}}
  {%- elif not (loop.first and message.role == 'system') -%}
    {{- turn(message.role, message.content or '') -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant{{ '\n' }}{%- endif -%}
"""


def write(path: str, context: int = CONTEXT) -> None:
    """Write the model to a file; it reads so many tokens."""
    tokens = list(_tokens())
    writer = GGUFWriter(path, "llama")
    _describe(writer, tokens)
    writer.add_context_length(context)
    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (random.standard_normal(shape) * 0.2).astype(np.float32)

    ones, head = np.ones(WIDTH, np.float32), WIDTH // HEADS
    meaning, saying = weights(len(tokens), WIDTH), weights(len(tokens), WIDTH)
    # The first place of a state does not change, and represents one token only.
    meaning[:, 0], saying[:, 0] = 3.0, 0.0
    saying[[text for text, _, _ in tokens].index(OPENING), 0] = EAGERNESS
    writer.add_tensor("token_embd.weight", meaning)
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", saying)
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (KEY_HEADS * head, WIDTH),
        "attn_v": (KEY_HEADS * head, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (INNER, WIDTH),
        "ffn_up": (INNER, WIDTH),
        "ffn_down": (WIDTH, INNER),
    }
    for layer in range(LAYERS):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", ones)
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", ones)
        for name, shape in shapes.items():
            tensor = weights(*shape)
            if shape[0] == WIDTH:
                tensor[0] = 0.0
            writer.add_tensor(f"blk.{layer}.{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _tokens() -> Iterator[tuple[str, int, float]]:
    """Yield every token: its text, its kind and its score."""
    for text, kind in (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)):
        yield text, kind, 0.0
    for byte in range(256):
        yield f"<0x{byte:02X}>", BYTE, -100.0
    letters = [chr(code) for code in range(33, 127)]
    words = ["\u2581", *letters, "\u2581the", "\u2581a", "ing", "\u2581hello", "\u2581world"]
    special = [(OPENING, USER_DEFINED), ("<|im_start|>", CONTROL), ("<|im_end|>", CONTROL)]
    rest = [*((word, NORMAL) for word in words), *special]
    for place, (text, kind) in enumerate(rest, start=1):
        yield text, kind, -float(place)


def _describe(writer: GGUFWriter, tokens: list[tuple[str, int, float]]) -> None:
    writer.add_name("tiny-random")
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text, _, _ in tokens])
    writer.add_token_scores([score for _, _, score in tokens])
    writer.add_token_types([kind for _, kind, _ in tokens])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)  # noqa: FBT003  the writer takes no name
    writer.add_add_space_prefix(False)  # noqa: FBT003  the writer takes no name
    writer.add_chat_template(TEMPLATE)
