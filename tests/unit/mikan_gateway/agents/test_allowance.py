from mikan_gateway.agents.allowance import BYTE_BURST, FRAME_BURST, FRAMES_PER_SECOND, Allowance


def test_a_burst_is_allowed_and_what_exceeds_it_is_not() -> None:
    allowance = Allowance(0.0)
    assert all(allowance.take(1, 0.0) for _ in range(int(FRAME_BURST)))
    assert not allowance.take(1, 0.0)


def test_the_allowance_fills_with_time_and_no_further_than_a_burst() -> None:
    allowance = Allowance(0.0)
    for _ in range(int(FRAME_BURST)):
        allowance.take(1, 0.0)
    assert sum(allowance.take(1, 1.0) for _ in range(int(FRAMES_PER_SECOND))) == FRAMES_PER_SECOND
    assert not allowance.take(1, 1.0)
    assert allowance.take(1, 10_000.0)
    assert sum(allowance.take(1, 10_000.0) for _ in range(int(FRAME_BURST) + 100)) == FRAME_BURST - 1


def test_bytes_count_whatever_the_number_of_frames() -> None:
    allowance = Allowance(0.0)
    assert allowance.take(int(BYTE_BURST), 0.0)
    assert not allowance.take(1, 0.0)
