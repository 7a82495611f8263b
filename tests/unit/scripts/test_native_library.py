"""C files are compiled in parts, each of one package; unchanged parts are kept."""

import shutil
from pathlib import Path

import native_library
import pytest
from native_library import Workshop, code_parts, entry_parts, include
from setuptools import Extension


def write(folder: Path, module: str, size_bytes: int) -> Path:
    file = folder / f"__native_{module.replace('.', '___')}.c"
    file.write_text("x" * size_bytes)
    return file


def test_a_part_holds_files_of_one_package_only(tmp_path: Path) -> None:
    modules = ("bus.amqp.link", "bus.amqp.codec", "bus.rules.like")
    files = [write(tmp_path, module, 10) for module in modules]
    assert code_parts(files) == [[files[1], files[0]], [files[2]]]


def test_large_packages_are_cut_and_the_largest_part_is_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_library, "PART_BYTES", 20)
    sizes = {"a.a": 5, "a.b": 15, "a.c": 30, "b.a": 10, "b.b": 9, "b.c": 6}
    files = [write(tmp_path, module, size) for module, size in sizes.items()]
    assert code_parts(files) == [[files[2]], files[3:], files[:2]]


def test_an_entry_has_all_modules_of_a_package(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.c" for name in ("a.b.one", "a.b.two", "a.c")}
    entries = entry_parts(files)
    assert list(entries) == ["a.b", "a"]
    assert entries["a.b"].count("#include") == 2
    assert entries["a"].count("#include") == 1


needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler"
)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    whole = Extension("whole", [], include_dirs=[str(tmp_path)])
    return Workshop(tmp_path, whole)


@pytest.fixture
def compilations(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each run of the C compiler."""
    runs: list[str] = []
    run = workshop._compiler.compile

    def counted(sources: list[str], **options: object) -> list[str]:
        runs.extend(sources)
        return run(sources, **options)

    monkeypatch.setattr(workshop._compiler, "compile", counted)
    return runs


@needs_compiler
def test_an_unchanged_part_is_compiled_once(
    tmp_path: Path, workshop: Workshop, compilations: list[str]
) -> None:
    (tmp_path / "one.c").write_text("int one(void) { return 1; }\n")
    part = include([tmp_path / "one.c"])
    first = workshop.compile(part)
    assert workshop.compile(part) == first
    assert len(compilations) == 1


@needs_compiler
def test_an_edited_part_is_compiled_again(
    tmp_path: Path, workshop: Workshop, compilations: list[str]
) -> None:
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    first = workshop.compile(include([source]))
    source.write_text("int one(void) { return 2; }\n")
    assert workshop.compile(include([source])) != first
    assert len(compilations) == 2


@needs_compiler
def test_an_edited_header_makes_all_parts_new(tmp_path: Path) -> None:
    (tmp_path / "one.h").write_text("#define ONE 1\n")
    (tmp_path / "one.c").write_text('#include "one.h"\nint one(void) { return ONE; }\n')
    whole = Extension("whole", [], include_dirs=[str(tmp_path)])
    first = Workshop(tmp_path, whole).compile(include([tmp_path / "one.c"]))
    (tmp_path / "one.h").write_text("#define ONE 2\n")
    assert Workshop(tmp_path, whole).compile(include([tmp_path / "one.c"])) != first


@needs_compiler
def test_objects_that_were_not_used_for_longest_are_removed(
    tmp_path: Path, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_library, "KEPT_OBJECT_COUNT", 1)
    (tmp_path / "one.c").write_text("int one(void) { return 1; }\n")
    (tmp_path / "two.c").write_text("int two(void) { return 2; }\n")
    old, new = (
        workshop.compile(include([tmp_path / f"{n}.c"])) for n in ("one", "two")
    )
    workshop.forget_old_objects()
    assert not old.exists()
    assert new.exists()
