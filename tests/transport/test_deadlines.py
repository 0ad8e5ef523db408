import pytest

from src.errors import Cancelled
from src.transport.deadlines import MIN_PROGRESS_BYTES, Deadline, Timeouts

OWN = Timeouts(connect=1, first_token=60, idle=10, total=60, own=60)
LIMITS = Timeouts(connect=1, first_token=60, idle=10, total=100)
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
def deadline(time):
    return Deadline(LIMITS, time)


def test_until_the_first_line_the_first_tokens_clock_runs(deadline, time):
    time.now += 59
    assert deadline.remaining() == 1
    time.now += 1
    with pytest.raises(TimeoutError):
        deadline.remaining()
    assert "sent nothing for 60 seconds" in deadline.timeout_error(URL).message
    assert "vllm.first_token_timeout" in deadline.timeout_error(URL).hint


def test_each_line_starts_the_idle_clock_anew_and_a_comment_is_one(deadline, time):
    for _ in range(3):
        deadline.note_progress(b": keep-alive\n\n")
        assert deadline.remaining() == 10
        time.now += 9
    time.now += 1
    assert "fell silent: nothing for 10 seconds" in deadline.timeout_error(URL).message
    assert "vllm.timeout" in deadline.timeout_error(URL).hint


def test_single_bytes_are_no_progress(deadline, time):
    deadline.note_progress(b"\n")
    for _ in range(9):
        time.now += 1
        deadline.note_progress(b"x")
    assert deadline.remaining() == 1


def test_a_kilobyte_is(deadline, time):
    deadline.note_progress(b"\n")
    time.now += 9
    deadline.note_progress(b"x" * MIN_PROGRESS_BYTES)
    assert deadline.remaining() == 10


def test_the_total_runs_on_whatever_comes(deadline, time):
    for _ in range(20):
        deadline.note_progress(b": keep-alive\n\n")
        time.now += 5
    with pytest.raises(TimeoutError):
        deadline.remaining()
    assert "did not finish within 100 seconds" in deadline.timeout_error(URL).message
    assert "vllm.total_timeout" in deadline.timeout_error(URL).hint


def test_a_new_request_starts_all_of_them(deadline, time):
    deadline.note_progress(b"\n")
    time.now += 500
    deadline.start()
    assert deadline.remaining() == 60


def test_hurrying_ends_it_soon(deadline):
    deadline.cap(0.1)
    assert deadline.remaining() == pytest.approx(0.1)


def test_a_cancelled_wait_ends_before_its_limit(deadline):
    deadline.is_cancelled = lambda: True
    with pytest.raises(Cancelled):
        deadline.remaining()


@pytest.mark.parametrize(("limits", "cap"), [(OWN, None), (LIMITS, 60)])
def test_a_limit_of_the_program_names_no_setting(limits, cap, time):
    deadline = Deadline(limits, time)
    if cap:
        deadline.cap(cap)
    time.now += 61
    error = deadline.timeout_error(URL)
    assert "within 60 seconds" in error.message
    assert "vllm." not in error.hint
