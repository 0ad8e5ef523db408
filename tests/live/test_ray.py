"""A batch on a real Ray cluster, which is started here."""

import os

import pytest

from src.batch.tasks import Task
from tests.batch.test_driver import run

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not os.environ.get("VLLM_BOT_RIG"), reason="a cluster is started with the live tests only"),
    pytest.mark.filterwarnings("ignore"),  # Ray warns of itself
]


def test_ray_gives_the_rows_of_the_pool(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed")
    tasks = [Task("a", "say x"), Task("b", "write b.txt", checks=("test -f b.txt",))]
    rows = []
    for ray in (None, ""):
        with run(tmp_path / f"ray {ray}", *tasks, ray=ray) as batch:
            rows.append([row._replace(seconds=0, session="") for row in batch.rows])
    assert rows[0] == rows[1]
