"""Remembers what is still open: two tools for the model, ``/board`` for people, and a reminder on weekdays."""

import asyncio

from mikan_agent.extensions.api import (
    CapabilityUnavailable,
    CommandCall,
    ExtensionApi,
    Field,
    RequestFailed,
    ToolArguments,
    ToolError,
)

from .board import Board, shown

REMINDER = """\
These follow-ups were open in this conversation when the reminder was set; call follow_up_list for what is open now.
Tell people which are due today or overdue, one line each. If there are none, answer with exactly [SILENT]."""


class Add(ToolArguments):
    """Arguments of ``follow_up_add``."""

    title: str = Field(min_length=1, max_length=200, description="What is to be done")
    who: str = Field(default="", max_length=80, description="Who does it, as <@userName>")
    due: str = Field(default="", pattern=r"^(\d{4}-\d{2}-\d{2})?$", description="Until when, as YYYY-MM-DD")


class Close(ToolArguments):
    """Arguments of ``follow_up_close``."""

    number: int = Field(ge=1, description="Its number on the board")


async def activate(api: ExtensionApi) -> None:
    """Set up tools, the command, and the reminder."""
    board = Board(api.paths.data_dir)

    async def add(arguments: Add) -> str:
        made = await asyncio.to_thread(board.add, arguments.title, arguments.who, arguments.due)
        return f"It is number {made.number}."

    async def close(arguments: Close) -> str:
        closed = await asyncio.to_thread(board.close, arguments.number)
        if closed is None:
            raise ToolError(f"There is no follow-up {arguments.number}. Open are:\n{shown(board.open())}")
        return f"Done: {closed.title}"

    async def list_open(arguments: ToolArguments) -> str:
        return shown(await asyncio.to_thread(board.open))

    def show(call: CommandCall) -> str:
        return shown(board.open())

    api.register_tool("follow_up_add", "Note something that is to be done later.", Add, add)
    api.register_tool("follow_up_close", "Take a follow-up off the board.", Close, close)
    api.register_tool("follow_up_list", "Show what is open.", ToolArguments, list_open, parallel=True)
    api.register_command("board", "Show what is open", show)
    try:
        # Again with each activation: a schedule of the same name is replaced.
        await api.schedules.upsert("reminder", text=REMINDER, schedule="0 9 * * 1-5", timezone="UTC")
    except (CapabilityUnavailable, RequestFailed) as error:
        api.log(f"no reminders: {error}", "warning")
