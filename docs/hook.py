"""The hook of mkdocs: pages of reference.py beside the files, addresses of pyproject.toml, code that wraps."""

from __future__ import annotations

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.reference import REPOSITORY, SITE, pages
from docs.wrapping import keep_words


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.site_url = SITE
    config.repo_url = REPOSITORY
    config.repo_name = "Source"
    config.edit_uri_template = f"{REPOSITORY}/blob/main/docs/{{path}}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in pages().items():
        files.append(File.generated(config, path, content="\n".join(page())))
    return files


def on_page_content(html: str, **_: Any) -> str:
    return keep_words(html)
