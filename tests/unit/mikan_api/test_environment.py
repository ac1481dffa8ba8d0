from datetime import timedelta
from pathlib import Path

import pytest

from mikan_api.environment import Environment, Listen, naming
from mikan_api.exceptions import ConfigError, InvalidAddress


def read(value: str) -> Environment:
    return Environment({"X": value})


def test_a_variable_that_is_set_to_nothing_counts_as_unset() -> None:
    assert (read("").text("X", "other"), read("").path("X", "/there")) == ("other", Path("/there"))
    assert (read("").log_level("X"), read("").duration("X", "1m")) == ("INFO", timedelta(minutes=1))
    assert read("").listen("X") == Listen("0.0.0.0", 8080)


@pytest.mark.parametrize("env", [Environment({}), read("")])
def test_what_is_required_and_not_set_is_named(env: Environment) -> None:
    for look in (env.required, env.url):
        with pytest.raises(ConfigError, match=r"^X is not set$"):
            look("X")


@pytest.mark.parametrize("value", ["8080", ":8080", "host:", "host:http", "host:65536", "host:\u0663"])
def test_an_address_is_host_and_port(value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(value).listen("X")

    assert str(refused.value) == f"X: {value!r} is not host:port"


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert read("[::]:8080").listen("X") == Listen("::", 8080)


def test_one_listener_is_switched_off_by_an_empty_address() -> None:
    assert read("").listen_unless_empty("X", "127.0.0.1:8081") is None
    assert Environment({}).listen_unless_empty("X", "127.0.0.1:8081") == Listen("127.0.0.1", 8081)


def test_a_log_level_is_written_in_any_case() -> None:
    assert read("warning").log_level("X") == "WARNING"
    with pytest.raises(ConfigError, match=r"^X: 'LOUD' is none of DEBUG, INFO, WARNING, ERROR$"):
        read("loud").log_level("X")


def test_a_wrong_duration_is_named_with_an_example() -> None:
    with pytest.raises(ConfigError, match=r"^X: 'soon' is not a duration like 90s, 15m or 1h30m$"):
        read("soon").duration("X", "1s")


@pytest.mark.parametrize("value", ["host:80", "ftp://h", "http://u:hunter2@h", "http://h/?k=hunter2", "http://h/a b"])
def test_an_address_of_a_server_holds_no_credentials_and_is_not_repeated(value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(value).url("X")

    assert str(refused.value) == "X must be an http or https URL without credentials, query or fragment"


def test_a_value_outside_its_grammar_is_told_of_with_its_variables() -> None:
    with pytest.raises(ConfigError, match=r"^X, Y: no such platform$"), naming("X", "Y"):
        raise InvalidAddress("no such platform")
