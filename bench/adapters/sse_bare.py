"""The ceiling: no framework, 30 ready-made events, one send each."""

import asyncio
import json

EVENTS = [
    b"data: "
    + json.dumps(
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": f"word{i - 9} "}
    ).encode()
    + b"\n\n"
    for i in range(30)
]


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    body = (await receive())["body"]
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/event-stream")],
        }
    )
    for event in EVENTS:
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": event, "more_body": True})
        if b"hold" in body:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
    await send({"type": "http.response.body", "body": b""})
