"""``python -m servers.telegram --host … --port … --control SOCKET``: the server as a program, for tests with pods.

What people do and see goes over a socket file, which a test reaches from wherever it runs:

* ``POST /people/<id>/say`` with ``{"text": …}``: somebody writes to the bot.
* ``GET /people/<id>/sees``: the bot's messages in that private chat, ``[{"text", "history", "reply_to"}]``.
* ``GET /calls``: how often each method was called.
* ``GET /conflicts``: how many pollers were told of another one (409).
"""

import argparse
import asyncio
from collections import Counter

from aiohttp import web

from servers.telegram.server import TelegramServer


async def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--control", required=True)
    options = parser.parse_args()
    async with TelegramServer(host=options.host, port=options.port) as server:
        runner = web.AppRunner(control(server), access_log=None)
        await runner.setup()
        await web.UnixSite(runner, options.control).start()
        await asyncio.Event().wait()


def control(server: TelegramServer) -> web.Application:
    """What a test does as people, and sees as them."""

    async def say(request: web.Request) -> web.Response:
        chat = server.private(int(request.match_info["id"]))
        return web.json_response({"message_id": chat.send((await request.json())["text"]).id})

    async def sees(request: web.Request) -> web.Response:
        chat = server.private(int(request.match_info["id"]))
        shown = [{"text": m.text or m.caption, "history": m.history, "reply_to": m.reply_to} for m in chat.answers]
        return web.json_response(shown)

    async def calls(_: web.Request) -> web.Response:
        return web.json_response(Counter(name for name, _ in server.calls))

    async def conflicts(_: web.Request) -> web.Response:
        return web.json_response(server.conflicts)

    app = web.Application()
    app.router.add_post("/people/{id}/say", say)
    app.router.add_get("/people/{id}/sees", sees)
    app.router.add_get("/calls", calls)
    app.router.add_get("/conflicts", conflicts)
    return app


if __name__ == "__main__":
    asyncio.run(main())
