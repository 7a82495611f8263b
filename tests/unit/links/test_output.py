"""Every connection with output writes once."""

from twinbus.links.output import Output, Outputs


def test_marked_connections_write_once_per_flush() -> None:
    outputs, written = Outputs(), []
    one = Output(outputs, lambda: written.append(1))
    two = Output(outputs, lambda: written.append(2))
    one.mark()
    two.mark()
    one.mark()
    outputs.flush()
    outputs.flush()
    assert written == [1, 2]


def test_connection_that_is_marked_while_others_write_writes_too() -> None:
    outputs, written = Outputs(), []
    two = Output(outputs, lambda: written.append(2))

    def write_one() -> None:
        written.append(1)
        two.mark()

    one = Output(outputs, write_one)
    one.mark()
    one.flush_all()
    assert written == [1, 2]


def test_connection_can_be_marked_again_after_it_has_written() -> None:
    outputs, written = Outputs(), []
    output = Output(outputs, lambda: written.append(1))
    for _ in range(2):
        output.mark()
        outputs.flush()
    assert written == [1, 1]
