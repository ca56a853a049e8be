"""Compiles the catalogues into the wheel; all else is in pyproject.toml."""

from io import BytesIO
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCatalogues(build_py):
    """An editable install has none compiled: it reads the sources, so that none is ever out of date."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for source in Path(self.build_lib, "nanodyno", "report", "catalogues").glob("*.po"):
            compiled = BytesIO()
            write_mo(compiled, read_po(BytesIO(source.read_bytes()), locale=source.stem, abort_invalid=True))
            source.with_suffix(".mo").write_bytes(compiled.getvalue())


setup(cmdclass={"build_py": BuildWithCatalogues})
