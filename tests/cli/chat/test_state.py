"""What a chat counts: the context in use, and the speed of answers."""

from queue import Queue

from src.cli.chat.loop import preload_in_background
from src.cli.chat.state import AnswerClock
from src.types.events import Completed, TextDelta, TurnStarted
from src.types.messages import Response, Usage


def test_the_first_estimate_counts_the_tools(state):
    before = state.context_used
    state.estimate_overhead()
    assert state.context_used > before + 500


def test_the_first_estimate_is_drawn_as_soon_as_it_is_known(state):
    drawn: Queue[int] = Queue()
    preload_in_background(state, lambda: drawn.put(state.overhead_tokens))
    assert drawn.get(timeout=60) > 500


def test_the_speed_of_an_answer_is_that_of_its_tokens_and_of_the_time_between_its_events():
    times = iter([10.0, 12.0, 17.0])
    clock = AnswerClock(lambda: next(times))
    for event in (TurnStarted(1), TextDelta("a"), TextDelta("b"), Completed(Response((), usage=Usage(900, 101, 500)))):
        clock.take(event)
    assert (clock.prefill, clock.decode) == (200.0, 20.0)


def test_a_prompt_of_which_all_but_a_few_tokens_were_cached_tells_no_speed_of_reading():
    times = iter([10.0, 10.5, 15.5])
    clock = AnswerClock(lambda: next(times))
    for event in (TurnStarted(1), TextDelta("a"), Completed(Response((), usage=Usage(991, 101, 990)))):
        clock.take(event)
    assert (clock.prefill, clock.decode) == (0.0, 20.0)


def test_an_answer_that_came_whole_tells_no_speed():
    clock = AnswerClock(lambda: 1.0)
    for event in (TurnStarted(1), TextDelta("a"), Completed(Response((), usage=Usage(900, 101)))):
        clock.take(event)
    assert (clock.prefill, clock.decode) == (0.0, 0.0)
