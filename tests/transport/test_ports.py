import socket

from src.transport.ports import HERE, listening


def test_those_that_take_a_connection_in_the_order_given():
    with socket.create_server((HERE, 0)) as one, socket.create_server((HERE, 0)) as other:
        open_ports = [one.getsockname()[1], other.getsockname()[1]]
        with socket.create_server((HERE, 0)) as gone:
            closed = gone.getsockname()[1]
        assert listening([open_ports[0], closed, open_ports[1]]) == open_ports
        assert listening(open_ports[::-1]) == open_ports[::-1]


def test_none():
    assert listening([]) == []
