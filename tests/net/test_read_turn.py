"""What connections leave to the end of a turn of the reactor."""

from logbus.net.read_turn import ReadTurn


def test_end() -> None:
    """What was left is done once, and may leave more."""
    turn, done = ReadTurn(), []

    def work() -> None:
        done.append(1)
        if len(done) == 1:
            turn.finish = work

    turn.end()
    turn.finish = work
    turn.end()
    assert done == [1]
    turn.end()
    turn.end()
    assert done == [1, 1]
