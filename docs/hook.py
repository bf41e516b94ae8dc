"""The hook of mkdocs that adds the pages of reference.py to those that are files (see mkdocs.yml)."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.reference import PAGES


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content="\n".join(page())))
    return files
