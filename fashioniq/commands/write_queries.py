"""`fashioniq write-queries`."""

from dataclasses import asdict

from fashioniq.config import WriteQueries
from fashioniq.data.catalog import Catalog
from fashioniq.evaluation.single_turn import check_categories, coverage_line, known_products, task_of
from fashioniq.files import write_json


def run(settings: WriteQueries) -> None:
    """Write queries and gallery of each category to a file, for systems scored with `fashioniq score`."""
    check_categories(settings)
    catalogs = [Catalog(settings.data, category) for category in settings.category]
    tasks = [
        task_of(settings, one, known_products(settings, number, one)) for number, one in enumerate(catalogs)
    ]
    for task in tasks:
        path = settings.out / f"queries.{task.category}.json"
        queries = {
            query.name: {key: value for key, value in asdict(query).items() if key != "name"}
            for query in task.queries
        }
        write_json(
            path,
            {"category": task.category, **task.facts, "queries": queries, "gallery": task.ids},
            indent=None,
        )
        print(f"{coverage_line(task.category, task.facts)}: {len(queries)} queries in {path}")
