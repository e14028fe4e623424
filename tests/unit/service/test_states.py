"""States of dialogs that the service keeps."""

from types import SimpleNamespace

from fashioniq.loop.dialog import Dialog
from tests.unit.service.conftest import showing_system


def test_the_state_of_a_dialog_is_not_used_with_a_model_that_was_loaded_again(service):
    before, reloaded = SimpleNamespace(system=showing_system()), SimpleNamespace(system=showing_system())
    live = Dialog.start(before.system)
    service.states.remember("query", live)
    assert service.states.known(before, "query") is live
    assert service.states.known(reloaded, "query") is None and service.states.known(before, "other") is None
