"""The shopper's page: rendered on the server, so that it works without scripts."""

from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse

from fashioniq.serving.problems import TITLES, Problem

PREFIX = "/shop"


def add_routes(app: FastAPI) -> None:
    """Add the routes of the page."""


def problem_page(request: Request, problem: Problem, headers: dict[str, str]) -> Response:
    """An error as a page."""
    return PlainTextResponse(TITLES[problem.code][1], problem.status, headers)
