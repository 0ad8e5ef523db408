import pytest

from src.transport.deadlines import LEAST_PROGRESS, Clocks, Stopwatch

LIMITS = Clocks(connect=1, first_token=60, idle=10, total=100)
URL = "http://server.test/v1"


class Time:
    """A clock that goes on when told."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def stopwatch(time):
    return Stopwatch(LIMITS, time)


def test_until_the_first_line_the_first_tokens_clock_runs(stopwatch, time):
    time.now += 59
    assert stopwatch.left() == 1
    time.now += 1
    with pytest.raises(TimeoutError):
        stopwatch.left()
    assert "sent nothing for 60 seconds" in stopwatch.overdue(URL).message
    assert "vllm.first_token_timeout" in stopwatch.overdue(URL).hint


def test_each_line_starts_the_idle_clock_anew_and_a_comment_is_one(stopwatch, time):
    for _ in range(3):
        stopwatch.received(b": keep-alive\n\n")
        assert stopwatch.left() == 10
        time.now += 9
    time.now += 1
    assert "fell silent: nothing for 10 seconds" in stopwatch.overdue(URL).message
    assert "vllm.timeout" in stopwatch.overdue(URL).hint


def test_single_bytes_are_no_progress(stopwatch, time):
    stopwatch.received(b"\n")
    for _ in range(9):
        time.now += 1
        stopwatch.received(b"x")
    assert stopwatch.left() == 1


def test_a_kilobyte_is(stopwatch, time):
    stopwatch.received(b"\n")
    time.now += 9
    stopwatch.received(b"x" * LEAST_PROGRESS)
    assert stopwatch.left() == 10


def test_the_total_runs_on_whatever_comes(stopwatch, time):
    for _ in range(20):
        stopwatch.received(b": keep-alive\n\n")
        time.now += 5
    with pytest.raises(TimeoutError):
        stopwatch.left()
    assert "did not finish within 100 seconds" in stopwatch.overdue(URL).message
    assert "vllm.total_timeout" in stopwatch.overdue(URL).hint


def test_a_new_request_starts_all_of_them(stopwatch, time):
    stopwatch.received(b"\n")
    time.now += 500
    stopwatch.start()
    assert stopwatch.left() == 60


def test_hurrying_ends_it_soon(stopwatch):
    stopwatch.hurry(0.1)
    assert stopwatch.left() == pytest.approx(0.1)
