import harness
import pytest


@pytest.fixture
def server():
    server = harness.Server()
    yield server
    server.close()


@pytest.fixture(params=harness.POOLS)
def pool(request):
    return request.param
