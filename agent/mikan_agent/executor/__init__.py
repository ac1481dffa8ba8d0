"""Running commands and moving files in an office's sandbox (architecture section 7).

Tools depend on ``Executor`` alone. ``pod_executor`` talks to a sandbox pod, ``LocalHelper`` to a helper on this
machine, ``ExecOnlyExecutor`` to anything that can only run a command.
"""

from mikan_agent.executor.client import HelperExecutor
from mikan_agent.executor.exceptions import (
    ConnectionLost,
    ExecutorError,
    ExecutorUnavailable,
    FileMissing,
    InvalidRequest,
    NoSpace,
    NotAFile,
    NotPermitted,
    OperationFailed,
    ProtocolViolation,
    RequestRefused,
    SandboxBusy,
    TooLarge,
)
from mikan_agent.executor.exec_only import BridgeReply, CommandBridge, ExecOnlyExecutor
from mikan_agent.executor.local import LocalHelper
from mikan_agent.executor.output import CappedOutput, OutputCollector
from mikan_agent.executor.paths import PathContext
from mikan_agent.executor.pod_exec import ApiServer, PodTarget, pod_executor
from mikan_agent.executor.ports import (
    ExecId,
    ExecRequest,
    ExecResult,
    Executor,
    ExecutorConfig,
    FileStat,
    FileType,
    OnOutput,
    OutputStream,
    new_exec_id,
)

__all__ = [
    "ApiServer",
    "BridgeReply",
    "CappedOutput",
    "CommandBridge",
    "ConnectionLost",
    "ExecId",
    "ExecOnlyExecutor",
    "ExecRequest",
    "ExecResult",
    "Executor",
    "ExecutorConfig",
    "ExecutorError",
    "ExecutorUnavailable",
    "FileMissing",
    "FileStat",
    "FileType",
    "HelperExecutor",
    "InvalidRequest",
    "LocalHelper",
    "NoSpace",
    "NotAFile",
    "NotPermitted",
    "OnOutput",
    "OperationFailed",
    "OutputCollector",
    "OutputStream",
    "PathContext",
    "PodTarget",
    "ProtocolViolation",
    "RequestRefused",
    "SandboxBusy",
    "TooLarge",
    "new_exec_id",
    "pod_executor",
]
