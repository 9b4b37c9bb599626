"""Small fits run on one thread, and leave torch as it was."""

import pytest
import torch

from volta.networks.training import one_thread_for


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_only_small_data_take_one_thread():
    with one_thread_for(100, limit=100):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with one_thread_for(101, limit=100):
        assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_an_error_leaves_the_threads_as_they_were():
    with pytest.raises(KeyError), one_thread_for(1):
        raise KeyError
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_fits_that_overlap_restore_what_the_first_one_found():
    first, second = one_thread_for(1), one_thread_for(1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_num_threads() == 1
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == 2
