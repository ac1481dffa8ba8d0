"""Paths, and what an answer of the API server means."""

import json

import pytest

from mikan_operator import exceptions as errors
from mikan_operator.storage.kinds import OFFICE, POD, ROLE, RUNTIME_CLASS
from mikan_operator.storage.kubernetes import translate


def answer(reason: str = "", message: str = "m", causes: tuple[str, ...] = ()) -> bytes:
    details = {"causes": [{"reason": cause} for cause in causes]}
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "details": details}).encode()


@pytest.mark.parametrize(
    ("method", "status", "body", "expected"),
    [
        ("GET", 404, answer("NotFound"), errors.NotFound),
        ("POST", 409, answer("AlreadyExists"), errors.AlreadyExists),
        ("DELETE", 409, answer("Conflict"), errors.Conflict),
        ("PATCH", 409, answer("Conflict"), errors.Conflict),
        ("POST", 403, answer("Forbidden"), errors.Forbidden),
        ("POST", 403, answer("Forbidden", causes=("NamespaceTerminating",)), errors.NamespaceTerminating),
        ("POST", 422, answer("Invalid"), errors.Invalid),
        ("POST", 400, answer("BadRequest"), errors.Invalid),
        ("GET", 429, answer("TooManyRequests"), errors.Unavailable),
        ("GET", 503, b"upstream connect error", errors.Unavailable),
        ("GET", 500, b"[]", errors.Unavailable),
        ("GET", 401, answer("Unauthorized"), errors.Unavailable),
    ],
)
def test_each_answer_has_one_meaning(method: str, status: int, body: bytes, expected: type[errors.ApiError]) -> None:
    found = translate(method, status, body)

    assert type(found) is expected
    assert found.status == status


def test_the_servers_message_is_kept_and_bounded() -> None:
    assert str(translate("POST", 403, answer(message="exceeded quota"))) == "exceeded quota"
    assert len(str(translate("POST", 403, answer(message="x" * 5000)))) == 1024


def test_paths() -> None:
    assert POD.path("ns") == "/api/v1/namespaces/ns/pods"
    assert OFFICE.path("ns", "o", "status") == "/apis/mikan.dev/v1alpha1/namespaces/ns/offices/o/status"
    assert ROLE.path("ns", "r") == "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/r"
    assert RUNTIME_CLASS.path("ns", "kata") == "/apis/node.k8s.io/v1/runtimeclasses/kata"
