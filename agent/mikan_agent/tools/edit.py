"""``edit``: one exact text in place of another. All else stays byte for byte: line ends, BOM, the rest."""

import difflib

from pydantic import Field

from mikan_agent.exceptions import ToolError
from mikan_agent.tools.tool import ToolArguments, ToolContext, ToolOutput, one_line, text_output

MAX_FILE = 8 * 1024 * 1024
_AROUND = 3
_MAX_DIFF = 20_000
_MAX_COMPARED = 1_000
"""Lines; comparing more takes time that the whole process would wait for."""


class EditArguments(ToolArguments):
    """Arguments of ``edit``."""

    path: str = Field(description="Path of the file, absolute or relative to the office directory")
    old_text: str = Field(min_length=1, description="Text to replace; must occur exactly once, white space included")
    new_text: str = Field(description="Text to put in its place")


class EditTool:
    """Replaces text in files."""

    name = "edit"
    description = (
        "Change a text file: oldText must be found exactly once and is replaced by newText. "
        "Include enough lines around it to make it unique."
    )
    arguments = EditArguments
    parallel = False

    def label(self, arguments: EditArguments) -> str:
        """One line for the status of this call."""
        return one_line(arguments.label or f"edit {arguments.path}")

    async def run(self, arguments: EditArguments, context: ToolContext) -> ToolOutput:
        """Edit."""
        path = context.resolve(arguments.path)
        data = await context.executor.read_file(path, 0, MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise ToolError(f"{arguments.path} has more than {MAX_FILE} bytes. Change it with bash: sed.")
        try:
            before = data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{arguments.path} is not UTF-8 text. Change it with bash.") from None
        position, old, new = _located(before, arguments)
        after = before[:position] + new + before[position + len(old) :]
        if after == before:
            raise ToolError("oldText and newText are the same: nothing to change.")
        await context.executor.write_file(path, after.encode())
        diff = _diff(before, after, position, len(old), len(new))
        return text_output(f"Changed {arguments.path}:\n{diff}", {"diff": diff})


def _located(text: str, arguments: EditArguments) -> tuple[int, str, str]:
    """Where the old text is, and both texts in the file's own line ends."""
    forms = {arguments.old_text: arguments.new_text}
    if "\r\n" in text and "\r" not in arguments.old_text:
        # Models write LF only. A text of one line matches as it is, but what replaces it may hold more.
        forms[arguments.old_text.replace("\n", "\r\n")] = arguments.new_text.replace("\n", "\r\n")
    found = [(text.find(old), old, new) for old, new in forms.items() if old in text]
    if not found:
        raise ToolError(f"oldText was not found in {arguments.path}. Read the file: it must match exactly.")
    position, old, new = found[0]
    if len(found) > 1 or text.find(old, position + 1) >= 0:
        count = max(sum(text.count(old) for old in forms), 2)
        raise ToolError(f"oldText occurs {count} times in {arguments.path}. Add lines to make it unique.")
    return position, old, new


def _diff(before: str, after: str, position: int, old: int, new: int) -> str:
    """A unified diff of the lines around the change; only they are compared, whatever the file's size."""
    start = position
    for _ in range(_AROUND + 1):
        start = before.rfind("\n", 0, start)
        if start < 0:
            break
    start = max(start + 1, 0) if start >= 0 else 0
    first = before.count("\n", 0, start)
    old_lines = before[start : _after(before, position + old)].splitlines()
    new_lines = after[start : _after(after, position + new)].splitlines()
    if len(old_lines) + len(new_lines) > _MAX_COMPARED:
        return f"@@ line {first + 1}: {len(old_lines)} lines became {len(new_lines)} @@"
    diff = list(difflib.unified_diff(old_lines, new_lines, lineterm="", n=_AROUND))[2:]
    header = f"@@ line {first + 1} @@"
    text = "\n".join([header, *(line for line in diff if not line.startswith("@@"))])
    return text if len(text) <= _MAX_DIFF else f"{text[:_MAX_DIFF]}\n[diff cut]"


def _after(text: str, position: int) -> int:
    for _ in range(_AROUND + 1):
        position = text.find("\n", position) + 1
        if position <= 0:
            return len(text)
    return position
