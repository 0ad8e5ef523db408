import pytest

from src.errors import (
    Cancelled,
    ClientError,
    ConnectFailed,
    HostUnknown,
    NeverReached,
    ServerError,
    ServerLoading,
    StreamCut,
    Timeout,
    TlsFailed,
)
from src.model.retry import MAX_RETRY_AFTER_S, RetryPolicy, with_retries
from src.types.effects import Sleep
from src.types.events import Notice, TextDelta
from tests.each import check_rows

HELLO = (TextDelta("Hello"),)
POLICY = RetryPolicy()


class Attempts:
    """Attempts that fail one after the other with these errors; the one after them gives `events`."""

    def __init__(self, *failures, events=HELLO, policy=POLICY, jitter=0.0, health=()):
        self.failures = list(failures)
        self.events = events
        self.made = 0
        self.slept = []
        health = iter(health)
        self.running = self._drive(
            with_retries(self._attempt, policy, lambda: jitter, lambda: self._check_health(health))
        )

    def _check_health(self, health):
        yield from ()
        return next(health, None)

    def _drive(self, turn):
        """Its events; what it sleeps is noted."""
        for step in turn:
            if isinstance(step, Sleep):
                self.slept.append(step.seconds)
            else:
                yield step

    def _attempt(self):
        self.made += 1
        if self.failures:
            raise self.failures.pop(0)
        yield from self.events

    def said(self):
        return [event.text for event in self.running if isinstance(event, Notice)]


def refused(status, retry_after=None, kind=ServerError):
    error = kind(f"The server refused (HTTP {status}): no.", status=status)
    error.retry_after = retry_after
    return error


class TestHowOften:
    @check_rows(
        "error, attempts",
        [
            (ConnectFailed("No server."), 3),
            (StreamCut("Cut."), 3),
            (StreamCut("Empty.", max_retries=1), 2),
            (HostUnknown("No host."), 1),
            (NeverReached("Nobody there yet."), 1),
            (TlsFailed("No trust."), 1),
            (Timeout("Silence."), 1),
            (ClientError("Else."), 1),
            *[(refused(status), 3) for status in (408, 425, 429, 500, 502, 503, 504, 529)],
            *[(refused(status), 1) for status in (400, 401, 403, 404, 413, 422, 501)],
        ],
    )
    def test_each_failure_is_worth_so_many_attempts(self, error, attempts):
        tried = Attempts(*[error] * 9)
        with pytest.raises(type(error)) as raised:
            tried.said()
        assert (tried.made, raised.value) == (attempts, error)

    def test_no_retries_are_no_retries(self):
        tried = Attempts(ConnectFailed("No server."), policy=RetryPolicy(retries=0))
        with pytest.raises(ConnectFailed):
            tried.said()
        assert (tried.made, tried.slept) == (1, [])

    def test_what_has_begun_to_be_shown_is_not_asked_for_again(self):
        def attempt():
            yield TextDelta("Hel")
            cut = StreamCut("Cut.")
            cut.was_shown = True
            raise cut

        running = with_retries(attempt, RetryPolicy(), lambda: 0.0)
        assert next(running) == TextDelta("Hel")
        with pytest.raises(StreamCut):
            next(running)

    def test_an_attempt_without_events_is_one_too(self):
        assert list(Attempts(events=()).running) == []


class TestHowLong:
    def test_waits_double_up_to_a_bound_and_are_said_before_they_begin(self):
        tried = Attempts(*[ConnectFailed("No server.")] * 6, policy=RetryPolicy(retries=6))
        assert tried.said()[:2] == [
            "No server; trying again in 0.5 s (attempt 2 of 7).",
            "No server; trying again in 1.0 s (attempt 3 of 7).",
        ]
        assert tried.slept == [0.5, 1, 2, 4, 8, 8]

    def test_jitter_shortens_a_wait_by_a_quarter_at_most(self):
        tried = Attempts(ConnectFailed("No server."), jitter=1.0)
        tried.said()
        assert tried.slept == [0.375]

    def test_the_server_is_obeyed(self):
        tried = Attempts(refused(429, 7.0))
        assert tried.said() == ["The server refused (HTTP 429): no; trying again in 7.0 s (attempt 2 of 3)."]
        assert tried.slept == [7.0]

    def test_a_wait_beyond_the_bound_is_said_and_not_waited(self):
        tried = Attempts(refused(429, 3600.0))
        with pytest.raises(ServerError) as raised:
            tried.said()
        assert (tried.made, raised.value.hint) == (1, "It asks to try again in 60 minutes.")
        assert MAX_RETRY_AFTER_S < 3600

    def test_a_cancel_ends_the_wait(self):
        running = with_retries(Attempts(ConnectFailed("No."))._attempt, RetryPolicy(), lambda: 0.0)
        assert isinstance(next(running), Notice)
        assert isinstance(next(running), Sleep)
        with pytest.raises(Cancelled):
            running.throw(Cancelled("stop"))


class TestLoading:
    def test_a_loading_server_has_a_budget_of_its_own(self):
        tried = Attempts(*[refused(503, kind=ServerLoading)] * 5, policy=RetryPolicy(retries=1, load_timeout=60))
        assert len(tried.said()) == 5
        assert tried.slept == [1, 1, 1, 1.5, 2.25]

    def test_it_ends(self):
        tried = Attempts(*[refused(503, kind=ServerLoading)] * 99, policy=RetryPolicy(load_timeout=60))
        with pytest.raises(ServerLoading):
            tried.said()
        assert sum(tried.slept) == pytest.approx(60)
        assert len(tried.slept) < 15

    def test_one_that_says_that_it_cannot_serve_is_asked_again_as_soon_as_it_can(self):
        loading = refused(503, 15.0, kind=ServerLoading)
        tried = Attempts(loading, health=[False, False, False, True])
        tried.said()
        assert tried.slept == [2, 2, 2]

    def test_one_that_is_well_and_still_loading_is_not_believed(self):
        tried = Attempts(refused(503, 15.0, kind=ServerLoading), health=[True])
        tried.said()
        assert tried.slept == [15]

    def test_other_failures_keep_their_own_count_beside_it(self):
        loading = refused(503, kind=ServerLoading)
        tried = Attempts(loading, ConnectFailed("No."), loading, ConnectFailed("No."), loading)
        tried.said()
        assert tried.made == 6
