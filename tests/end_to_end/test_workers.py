"""Two processes of the service on PostgreSQL behind nginx, with the configuration of the documentation."""

import re
import shutil
import socket
import subprocess
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.end_to_end.test_serve import NO_REUSE, Server
from tests.waiting import ended

CONFIG = Path(__file__).parents[2] / "configs/nginx.conf"
MAIN = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {folder}/fashioniq.conf;
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


@pytest.fixture
def nginx(tmp_path, wait_until):
    """Start nginx with the configuration, in front of these ports."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin") or pytest.skip("needs nginx")
    started = []

    def start(ports):
        port, text = free_port(), CONFIG.read_text()
        for number, own in zip(("8001", "8002"), ports, strict=True):
            assert f"127.0.0.1:{number};" in text
            text = text.replace(f"127.0.0.1:{number};", f"127.0.0.1:{own};")
        text = text.replace("listen 8000;", f"listen 127.0.0.1:{port};")
        (tmp_path / "fashioniq.conf").write_text(text)
        (tmp_path / "nginx.conf").write_text(MAIN.format(folder=tmp_path))
        process = subprocess.Popen([program, "-p", tmp_path, "-c", tmp_path / "nginx.conf"])
        started.append(process)

        def answers():
            with socket.socket() as one:
                return one.connect_ex(("127.0.0.1", port)) == 0

        wait_until(answers, lambda: process.poll() is None)
        return f"http://127.0.0.1:{port}"

    yield start
    for process in started:
        process.terminate()
        ended(process)


def test_any_of_two_workers_goes_on_with_a_conversation(
    forked_command, wait_until, tmp_path, runs, server, administer, nginx
):
    name = f"workers{uuid4().hex}"
    administer(f"CREATE DATABASE {name}")
    arguments = ["--database", server.format(name), "--run", str(runs.retriever), "--proxy", "--log"]
    workers = [
        Server(forked_command, wait_until, tmp_path / f"worker{number}.txt", arguments) for number in range(2)
    ]
    address = nginx([worker.address.rpartition(":")[2] for worker in workers])
    with httpx.Client(base_url=address, timeout=60, limits=NO_REUSE) as http:
        made = http.post("/v1/sessions", json={"category": "dresses"}).json()
        token = {"Authorization": f"Bearer {made['session_token']}"}
        path = f"/v1/sessions/{made['session_id']}"
        for turn in range(6):
            said = http.post(f"{path}/turns", json={"says": "is red", "after_turn": turn}, headers=token)
            assert said.status_code == 201 and said.json()["turn"] == turn + 1
        served = [len(re.findall("POST .*turns 201", worker.out.read_text())) for worker in workers]
        assert sum(served) == 6 and min(served) > 0
        for worker in workers:
            there = worker.http.get(path, headers=token).json()
            assert [one["turn"] for one in there["turns"]] == list(range(7))
        products = {"products": [{"id": "x"}]}
        assert http.put("/v1/categories/dresses/products", json=products).status_code == 401
        assert http.get("/metrics").status_code == 404
        workers[0].kill()
        for turn in range(6, 9):
            said = http.post(f"{path}/turns", json={"says": "is red", "after_turn": turn}, headers=token)
            assert said.status_code == 201
        assert http.delete(path, headers=token).status_code == 204
    workers[1].kill()
