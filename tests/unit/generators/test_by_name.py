"""Generators by the names that options have for them."""

import json
import sys
from types import ModuleType

import pytest
from PIL import Image

from fashioniq.files import UserError
from fashioniq.generators.by_name import generator_by_name
from fashioniq.generators.endpoint import PictureEndpoint
from fashioniq.generators.folder import Folder


def test_an_endpoint_and_a_folder_have_prefixes(tmp_path):
    endpoint = generator_by_name("endpoint:some/model:1")
    assert isinstance(endpoint, PictureEndpoint) and endpoint.identity["model"] == "some/model:1"
    Image.new("RGB", (16, 16)).save(tmp_path / "0_0.png")
    assert isinstance(generator_by_name(f"folder:{tmp_path}"), Folder)


@pytest.mark.parametrize("name", ["folder:\0", "\0", "x" * 300, "folder:" + "x" * 300])
def test_a_name_that_no_file_can_have_is_refused(name):
    with pytest.raises(UserError, match="path"):
        generator_by_name(name)


@pytest.mark.parametrize("name", ["endpoint:", "folder:"])
def test_a_prefix_alone_is_refused(name):
    with pytest.raises(UserError, match=f"expected {name}.*, found no"):
        generator_by_name(name)


def test_a_run_of_a_generator_is_loaded_on_the_device(tmp_path, monkeypatch):
    module = ModuleType("fashioniq.generators.trained")
    module.RunGenerator = lambda folder, device: (folder, device)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    (tmp_path / "model.json").write_text(json.dumps({"kind": "generator"}))
    assert generator_by_name(str(tmp_path), "cpu") == (tmp_path, "cpu")


def test_a_run_of_another_model_is_refused(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"kind": "retriever"}))
    with pytest.raises(UserError, match="expected a run of a generator, found that of a retriever"):
        generator_by_name(str(tmp_path))


def test_any_other_folder_is_a_pipeline(pipeline_folder):
    generator = generator_by_name(str(pipeline_folder("FluxPipeline")))
    assert generator.identity["pipeline"] == "FluxPipeline"
