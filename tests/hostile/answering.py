"""A server in place of OPENAI_BASE_URL, whose answers a case chooses."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest.mock import patch

from fashioniq.llm.endpoint import Endpoint

Reply = tuple[int, dict[str, str], bytes]  # status, headers, body


def text_for(prompt: str) -> str:
    """An answer in the form that the prompts of the package ask for, in words of the last line of the prompt."""
    words = prompt.split("\n")[-1].split()[::-1] or ["red"]
    said = [" ".join((words * 20)[9 * number : 9 * number + 9]) for number in range(5)]
    if '[{"role"' in prompt:
        roles = ("user", "assistant") * 3
        return json.dumps([{"role": role, "text": text} for role, text in zip(roles, said, strict=False)])
    found = dict(zip(("request", "first", "second"), said, strict=False)) | {"shown": "green evening gown"}
    return json.dumps(found) if "JSON" in prompt else "is it red?"


def completion(text: Any) -> dict[str, Any]:
    """An answer of a language model."""
    about = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return {**about, "choices": [choice], "usage": usage}


def valid(asked: dict[str, Any]) -> Reply:
    """The answer of a server that works."""
    prompt = str(asked.get("messages", [{}])[0].get("content", ""))
    return 200, {"Content-Type": "application/json"}, json.dumps(completion(text_for(prompt))).encode()


@contextmanager
def answering(reply: Callable[[dict[str, Any]], Reply] = valid) -> Iterator[None]:
    """Serve `reply` of each request's JSON at OPENAI_BASE_URL, without retries."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, body = reply(asked)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Ignore clients that went away."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        before = os.environ.get("OPENAI_BASE_URL")
        os.environ["OPENAI_BASE_URL"] = f"http://127.0.0.1:{server.server_port}/v1"
        try:
            with patch("fashioniq.askers.by_name.Endpoint", partial(Endpoint, retries=0)):
                yield
        finally:
            if before is None:
                del os.environ["OPENAI_BASE_URL"]
            else:
                os.environ["OPENAI_BASE_URL"] = before
            server.shutdown()
            thread.join(30)
