"""The hook of mkdocs: the pages of reference.py beside those that are files, and the addresses of pyproject.toml."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.reference import PAGES, REPOSITORY, SITE


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.site_url = SITE
    config.repo_url = REPOSITORY
    config.repo_name = "Source"
    config.edit_uri_template = f"{REPOSITORY}/blob/main/docs/{{path}}"
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content="\n".join(page())))
    return files
