"""The page itself: what it says this suite runs, it runs."""

import glob
import os

import page

HERE = os.path.dirname(os.path.abspath(__file__))


def test_each_block_that_the_page_names_is_run():
    tests = "".join(open(path, encoding="utf-8").read() for path in glob.glob(os.path.join(HERE, "test_*.py")))
    assert sorted(page.BLOCKS) == sorted(name for name in page.BLOCKS if f'"{name}"' in tests or name == page.LEDGER)
    assert len(page.BLOCKS) == 19
