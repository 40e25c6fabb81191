#!/usr/bin/env python3
"""tidy.py itself: each rule finds the fault planted for it, and nothing in a sound tree.

SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import tidy  # noqa: E402
import tidy_cpp  # noqa: E402
import tidy_docs  # noqa: E402

HEAD = "// What it owns.\n// SPDX-License-Identifier: Apache-2.0\n"
SOUND = {
    "src/LAYERS": "base:\nmodel: base\ncli: base model\n",
    "src/base/a.h": HEAD + "#pragma once\nint a();\n",
    "src/model/m.cc": HEAD + '#include "base/a.h"\nint m() { return 1; }\n',
    "src/cli/main.cc": HEAD + "#include <cstdio>\nint main() { std::printf(\"x\"); exit(0); }\n",
    "README.md": "See `src/base/a.h` and `model/m`.\n",
}
FAKE_RIDGE = """#!/bin/sh
case "$*" in
  "--help") printf 'x\\n\\nOptions:\\n  -h,--help  help\\n  --version  v\\n\\n'
            printf 'Subcommands:\\n  run  r\\n' ;;
  "run --help") printf 'Options:\\n  -h,--help  help\\n  -n,--tokens INT  many\\n' ;;
esac
"""


class Tidy(unittest.TestCase):
    def findings(self, check, **changed):
        files = dict(SOUND)
        files.update({name.replace("__", "/"): text for name, text in changed.pop("files").items()})
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return list(check(tidy.Tree(folder), **changed))

    def assert_found(self, check, words, files):
        found = self.findings(check, files=files)
        self.assertTrue(any(words in finding for finding in found), f"{words!r} not in {found}")

    def test_a_sound_tree_has_no_findings(self):
        for check in (tidy.check_layers, tidy.check_homes, tidy.check_printing, tidy.check_sizes,
                      tidy.check_heads, tidy.check_leftovers, tidy_docs.check_paths):
            self.assertEqual(self.findings(check, files={}), [], check.__name__)

    def test_an_include_that_the_layers_do_not_name_is_found(self):
        self.assert_found(tidy.check_layers, "base may not include model/m.h",
                          {"src/base/b.cc": HEAD + '#include "model/m.h"\n'})
        self.assert_found(tidy.check_layers, "no room plan", {"src/plan/p.cc": HEAD})
        self.assert_found(tidy.check_layers, "does not come before",
                          {"src/LAYERS": "base: model\nmodel: base\ncli: base model\n"})

    def test_simd_headers_outside_the_cpu_kernels_are_found(self):
        bad = HEAD + "#include <immintrin.h>\n"
        self.assert_found(tidy.check_homes, "immintrin.h", {"src/model/x.cc": bad})
        self.assertEqual(self.findings(tidy.check_homes, files={"src/kernels/cpu/x.cc": bad}), [])
        self.assert_found(tidy.check_homes, "nlohmann",
                          {"src/engine/x.h": HEAD + "#include <nlohmann/json.hpp>\n"})

    def test_printing_and_exiting_below_cli_are_found(self):
        for code in ('std::printf("x");', "fmt::print(stderr, x);", "std::cout << 1;", "exit(2);",
                     'std::fprintf(stderr, "x");'):
            self.assert_found(tidy.check_printing, "only cli prints",
                              {"src/model/x.cc": HEAD + "void f() { " + code + " }\n"})
        for code in ('// printf("x")', "snprintf(b, 1, x);", "scope.exit();", '"printf(";'):
            self.assertEqual(self.findings(
                tidy.check_printing, files={"src/model/x.cc": HEAD + code + "\n"}), [], code)

    def test_long_functions_files_and_lines_are_found(self):
        body = "  g();\n" * 60
        self.assert_found(tidy.check_sizes, "f has 62 lines",
                          {"src/model/x.cc": HEAD + "void f() {\n" + body + "}\n"})
        self.assert_found(tidy.check_sizes, "502 lines",
                          {"src/model/x.cc": HEAD + "\n" * 500})
        self.assert_found(tidy.check_sizes, "101 columns",
                          {"src/model/x.cc": HEAD + "//" + "x" * 99 + "\n"})
        self.assertEqual(self.findings(
            tidy.check_sizes, files={"src/kernels/x.cc": HEAD + "\n" * 600}), [])

    def test_an_exemption_that_exempts_nothing_is_found(self):
        tidy.LONG_FUNCTIONS_ALLOWED.append("src/model/m.cc:m")
        try:
            self.assert_found(tidy.check_sizes, "no longer needed", {})
        finally:
            tidy.LONG_FUNCTIONS_ALLOWED.clear()

    def test_missing_heads_and_leftover_marks_are_found(self):
        self.assert_found(tidy.check_heads, "no SPDX", {"src/model/x.cc": "// x\n"})
        self.assert_found(tidy.check_heads, "no #pragma once", {"src/model/x.h": HEAD})
        self.assert_found(tidy.check_leftovers, "file an issue",
                          {"src/model/x.cc": HEAD + "// TO" + "DO later\n"})

    def test_dead_paths_in_documents_are_found(self):
        self.assert_found(tidy_docs.check_paths, "`src/gone.cc`", {"README.md": "`src/gone.cc`\n"})
        self.assert_found(tidy_docs.check_paths, "`model/gone`", {"README.md": "`model/gone`\n"})
        self.assertEqual(self.findings(
            tidy_docs.check_paths, files={"README.md": "`a/b|c` `build/x` `--flag` `n/a`\n"}), [])

    def test_flags_are_held_against_help_in_both_directions(self):
        with tempfile.TemporaryDirectory() as folder:
            ridge = pathlib.Path(folder) / "ridge"
            ridge.write_text(FAKE_RIDGE)
            ridge.chmod(0o755)
            head = "## Flags\n| flag | of | what |\n|---|---|---|\n| `--version` | ridge | v |\n"
            good = head + "| `-n`, `--tokens N` | run | many |\n"
            check = tidy_docs.check_flags
            self.assertEqual(self.findings(check, files={"README.md": good}, ridge=ridge), [])
            lacks = self.findings(check, files={"README.md": head}, ridge=ridge)
            self.assertEqual(len(lacks), 2)
            extra = self.findings(check, ridge=ridge,
                                  files={"README.md": good + "| `--gone` | run | x |\n"})
            self.assertIn("--gone", extra[0])


class Functions(unittest.TestCase):
    def names(self, code):
        return [(f.name, f.lines) for f in tidy_cpp.functions_of(code)]

    def test_functions_are_found_at_namespace_and_class_level(self):
        self.assertEqual(self.names("namespace a {\nint f(int x) {\n  if (x) { g(); }\n}\n}"),
                         [("f", 3)])
        self.assertEqual(self.names("struct S {\n  int f() const { return 1; }\n  int x = 0;\n};"),
                         [("f", 1)])
        self.assertEqual(self.names("S::S(int x)\n    : a_{x},\n      b_(x) {\n  f();\n}"),
                         [("S::S", 5)])
        self.assertEqual(self.names("TEST(Suite, a_sentence) {\n}\n"), [("Suite.a_sentence", 2)])

    def test_braces_in_literals_comments_and_tables_do_not_count(self):
        self.assertEqual(self.names('int f() {\n  return "}{"[0]; // }\n}\nint g() {\n}'),
                         [("f", 3), ("g", 2)])
        self.assertEqual(self.names("const int t[] = {1, 2};\nvoid f() {\n}"), [("f", 2)])
        self.assertEqual(self.names("#if A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}"),
                         [("f", 5)])
        self.assertEqual(self.names("template <class T>\nvoid f(T x = {}) {\n}"), [("f", 3)])


if __name__ == "__main__":
    unittest.main()
