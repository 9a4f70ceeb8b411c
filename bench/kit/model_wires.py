"""One long streamed reply on three wires: its events, and a server that sends them.

Each reply has the same reasoning, text and calls, in as many pieces on each wire.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

WORDS = 200
THOUGHTS = 20
PIECES = 10
"""Deltas of the arguments of each of two calls, after the one with the name."""
CALLS = 2
TOKENS = 99
"""Tokens of the reply, as its usage says."""
PAUSE_S = 0.0003
"""Between two events, when they are to arrive alone."""
ARGUMENTS = json.dumps({"a": "x" * 91}, separators=(",", ":"))
Item = dict[str, Any]


def chat() -> Iterator[bytes]:
    """Yield the events of chat completions."""
    for _ in range(THOUGHTS):
        yield _chunk({"reasoning_content": "hm "})
    for _ in range(WORDS):
        yield _chunk({"content": "word "})
    for index in range(CALLS):
        function = {"name": "add", "arguments": ""}
        yield _chunk({"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]})
    for piece in _pieces():
        for index in range(CALLS):
            call = {"index": index, "function": {"arguments": piece}}
            yield _chunk({"tool_calls": [call]})
    yield _chunk({}, finish="tool_calls")
    usage = {"prompt_tokens": 7, "completion_tokens": TOKENS, "total_tokens": 7 + TOKENS}
    yield _chunk(None, usage=usage)
    yield b"data: [DONE]\n\n"


def responses() -> Iterator[bytes]:
    """Yield the events of OpenAI's Responses API."""
    response = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "in_progress",
    }  # fmt: skip
    items = [_reasoning_item(), _message_item(), *map(_call_item, range(CALLS))]
    usage = {
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": TOKENS, "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 7 + TOKENS,
    }  # fmt: skip
    found: list[Item] = [{"type": "response.created", "response": response}]
    for index, item in enumerate(items):
        found.append({"type": "response.output_item.added", "item": item, "output_index": index})
        found += ({**each, "output_index": index} for each in _deltas(item))
        found.append({"type": "response.output_item.done", "item": item, "output_index": index})
    end = {**response, "status": "completed", "output": items, "usage": usage}
    found.append({"type": "response.completed", "response": end})
    for number, each in enumerate(found):
        yield _event({**each, "sequence_number": number})


def anthropic() -> Iterator[bytes]:
    """Yield the events of Anthropic's Messages API."""
    usage = {"input_tokens": 7, "output_tokens": 0}
    message: Item = {
        "id": "m", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": usage,
    }  # fmt: skip
    yield _event({"type": "message_start", "message": message})
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    thoughts = [{"type": "thinking_delta", "thinking": "hm "}] * THOUGHTS
    yield from _block(0, thought, [*thoughts, {"type": "signature_delta", "signature": "Eq" * 99}])
    words = [{"type": "text_delta", "text": "word "}] * WORDS
    yield from _block(1, {"type": "text", "text": ""}, words)
    for index in range(CALLS):
        call = {"type": "tool_use", "id": f"toolu_{index}", "name": "add", "input": {}}
        pieces = ["", *_pieces()]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        yield from _block(2 + index, call, deltas)
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": end, "usage": {"output_tokens": TOKENS}})
    yield _event({"type": "message_stop"})


def _pieces() -> list[str]:
    size = len(ARGUMENTS) // PIECES
    return [ARGUMENTS[start : start + size] for start in range(0, len(ARGUMENTS), size)]


def _chunk(delta: Any, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**chunk, 'choices': choices, **more})}\n\n".encode()


def _event(payload: Mapping[str, Any]) -> bytes:
    return f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()


def _block(index: int, start: Item, deltas: list[Item]) -> Iterator[bytes]:
    yield _event({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
    yield _event({"type": "content_block_stop", "index": index})


def _reasoning_item() -> Item:
    summary = [{"type": "summary_text", "text": "hm " * THOUGHTS}]
    return {"type": "reasoning", "id": "rs", "summary": summary, "encrypted_content": "gA" * 850}


def _message_item() -> Item:
    content = [{"type": "output_text", "text": "word " * WORDS, "annotations": []}]
    status = {"role": "assistant", "status": "completed"}
    return {"type": "message", "id": "msg", "content": content, **status}


def _call_item(index: int) -> Item:
    names = {"id": f"fc_{index}", "call_id": f"c{index}", "name": "add"}
    return {"type": "function_call", **names, "arguments": ARGUMENTS, "status": "completed"}


def _deltas(item: Item) -> list[Item]:
    name = {"item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            kind, place = "response.reasoning_summary_text.delta", {"summary_index": 0}
            return [{"type": kind, "delta": "hm ", **name, **place}] * THOUGHTS
        case "message":
            kind, place = "response.output_text.delta", {"content_index": 0}
            return [{"type": kind, "delta": "word ", "logprobs": [], **name, **place}] * WORDS
    kind = "response.function_call_arguments"
    done = {"type": f"{kind}.done", "arguments": ARGUMENTS, "name": "add", **name}
    return [*({"type": f"{kind}.delta", "delta": piece, **name} for piece in _pieces()), done]


async def serve() -> None:
    """Print the port, and answer each request with the reply of its path until killed."""
    paths = {b"/chat/completions": chat, b"/responses": responses, b"/messages": anthropic}
    replies = {
        path: [f"{len(event):x}\r\n".encode() + event + b"\r\n" for event in events()]
        for path, events in paths.items()
    }

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]
                await reader.readexactly(int(length))
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                    b"transfer-encoding: chunked\r\n\r\n"
                )
                path = head.split(b" ")[1].partition(b"?")[0]
                for block in next(each for name, each in replies.items() if path.endswith(name)):
                    writer.write(block)
                    if path.startswith(b"/paced/"):
                        await asyncio.sleep(PAUSE_S)
                writer.write(b"0\r\n\r\n")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
