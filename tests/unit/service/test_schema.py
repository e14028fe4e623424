"""Requests generated from the OpenAPI document: no failure of the server, and errors are problems."""

import pytest

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402

from fashioniq.service.access import LIMITS, Access  # noqa: E402
from fashioniq.service.api import create_app  # noqa: E402
from fashioniq.service.schemas import SessionBody  # noqa: E402

PER_CALL = settings(
    max_examples=12,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_generated_requests_do_not_break_the_server(service, engine):
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", create_app(service, Access(service.store, local=True))
    )
    _, secret = service.store.add_key(["admin"], dict.fromkeys(LIMITS, "100000 per second"))
    seen = {}

    def check(case):
        token = secret
        if "session_id" in (case.path_parameters or {}):
            session = service.start(SessionBody(category="dresses"), "test")
            case.path_parameters["session_id"], token = session.session_id, session.session_token
        answer = case.call(headers={"Authorization": f"Bearer {token}"})
        seen.setdefault(answer.status_code, []).append(case.path)
        assert answer.status_code < 500, (case.method, case.path, answer.text)
        if answer.status_code >= 400 and case.path.startswith("/v1"):
            assert answer.headers["content-type"][0] == "application/problem+json"

    for operation in schema.get_all_operations():
        PER_CALL(given(case=operation.ok().as_strategy())(check))()
    answered = {path for code in (200, 201, 202, 204) for path in seen.get(code, [])}
    assert 401 not in seen and len(set(seen[422])) >= 4 and len(answered) > 8
