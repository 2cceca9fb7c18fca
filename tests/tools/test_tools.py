"""Tests of tools/: every check passes a good tree and names the mistake in a bad one."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name, *args, **kwargs):
    """-> (exit code, everything it printed)"""
    run = subprocess.run([TOOLS / name, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         **kwargs)
    return run.returncode, run.stdout


class Tree(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = Path(holder.name)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


class Layers(Tree):
    def setUp(self):
        super().setUp()
        self.write("tools/layers.txt", (TOOLS / "layers.txt").read_text())

    def expect(self, *messages):
        code, output = tool("check-layers", self.root)
        self.assertEqual(output.splitlines(), list(messages))
        self.assertEqual(code, 1 if messages else 0)

    def test_arrows_that_exist(self):
        self.write("src/model/forward.c", '#include "model/model.h"\n#include "state/state.h"\n#include <string.h>\n')
        self.write("src/state/state.h", '#include "kernels/kernels.h"\n#include "base/mem.h"\n')
        self.write("src/kernels/cpu/x86/avx2_dot.c", '#include "kernels/cpu/isa.h"\n#include "quant/q4.h"\n')
        self.write("src/base/json.h", "#include <jansson.h>\n")
        self.write("examples/chat.c", '#include "weir/weir.h"\n')
        self.expect()

    def test_upwards(self):
        self.write("src/base/mem.c", '#include "base/mem.h"\n\n  #  include "text/bpe.h"\n')
        self.expect("src/base/mem.c:3: base may not include text/bpe.h")

    def test_a_private_header(self):
        self.write("src/model/delta.c", '#include "state/kv_pages.h"\n')
        self.expect("src/model/delta.c:1: model may not include state/kv_pages.h")

    def test_the_backend_is_hidden_from_the_model(self):
        self.write("src/model/delta.c", '#include "kernels/cpu/cpu.h"\n')
        self.expect("src/model/delta.c:1: model may not include kernels/cpu/cpu.h")

    def test_the_program_sees_the_public_headers_only(self):
        self.write("src/cli/cmd_run.c", '#include "weir/model.h"\n#include "engine/engine.h"\n')
        self.expect("src/cli/cmd_run.c:2: cli may not include engine/engine.h")

    def test_a_public_header_includes_no_internal_one(self):
        self.write("include/weir/model.h", '#include "weir/base.h"\n#include "base/status.h"\n')
        self.expect("include/weir/model.h:2: include/weir may not include base/status.h")

    def test_cuda_may_not_use_the_library(self):
        self.write("src/kernels/cuda/norm.cu", '#include "kernels/kernels.h"\n#include "base/mem.h"\n')
        self.expect("src/kernels/cuda/norm.cu:2: kernels/cuda may not include base/mem.h")

    def test_a_path_that_is_not_written_from_src(self):
        self.write("src/text/bpe.c", '#include "bpe.h"\n')
        self.expect("src/text/bpe.c:1: text may not include bpe.h")

    def test_a_library_outside_its_room(self):
        self.write("src/model/delta.c", "#include <jansson.h>\n")
        self.expect("src/model/delta.c:1: model may not include <jansson.h>")

    def test_a_room_nobody_listed(self):
        self.write("src/utils/misc.c", "")
        self.expect("src/utils/misc.c: the room 'utils' has no line in tools/layers.txt")

    def test_a_broken_list_is_refused(self):
        for text, message in (("base weir/base.h\n", "expected 'room: file...'"), ("a:\na:\n", "a is listed twice"),
                              ("<x.h>: nowhere\n", "names the room 'nowhere'")):
            self.write("tools/layers.txt", text)
            code, output = tool("check-layers", self.root)
            self.assertEqual(code, 2)
            self.assertIn(message, output)


class Rules(Tree):
    def expect(self, *messages):
        code, output = tool("check-rules", self.root)
        self.assertEqual(output.splitlines(), list(messages))
        self.assertEqual(code, 1 if messages else 0)

    def test_a_file_that_keeps_them(self):
        self.write("src/text/bpe.c", '/* text/bpe.c - merges; may exit(1) in words. */\n'
                   '_Static_assert(1, "assert(1)");\nvoid bpe_exit(int);\nstatic void f(void) { bpe_exit(1); }\n')
        self.write("src/cli/main.c", '/* cli/main.c - a table of commands. */\nint main(void) { exit(puts("")); }\n')
        self.expect()

    def test_the_head_comment(self):
        self.write("src/base/mem.c", "#include <a.h>\n")
        self.write("src/base/str.c", "/* base/mem.c - copied. */\n")
        self.expect("src/base/mem.c:1: head: expected a comment that opens with 'base/mem.c - '",
                    "src/base/str.c:1: head: expected 'base/str.c - ...', found 'base/mem.c - copied. */'")

    def test_calls_of_a_program_in_the_library(self):
        self.write("src/load/bind.c", '/* load/bind.c - x. */\nvoid f(void)\n{\n    /* one\n       two */ abort();\n'
                   '    fprintf(stderr, "x");\n    getenv("X");\n}\n')
        self.expect("src/load/bind.c:5: call: abort belongs to src/cli alone",
                    "src/load/bind.c:6: call: stderr belongs to src/cli alone",
                    "src/load/bind.c:7: call: getenv belongs to src/cli alone")

    def test_platforms_and_dead_code(self):
        self.write("src/model/delta.c", "/* model/delta.c - x. */\n#ifdef __AVX2__\n#endif\n")
        self.write("src/kernels/cpu/isa.c", "/* kernels/cpu/isa.c - x. */\n#if defined(__x86_64__)\n#endif\n#if 0\n#endif\n")
        self.expect("src/kernels/cpu/isa.c:4: dead: code under #if 0",
                    "src/model/delta.c:2: platform: no #ifdef in model")

    def test_length(self):
        self.write("src/base/str.c", "/* base/str.c - x. */\n" + "\n" * 1000)
        self.expect("src/base/str.c: long: 1001 lines, expected at most 1000")


class Exports(Tree):
    HEADER = ('/* WEIR_API int weir_in_a_comment(void); */\n#define WEIR_API extern __attribute__((visibility("default")))\n'
              "WEIR_API int weir_one(void);\nWEIR_API const char *weir_two(int a,\n                  int b);\n")
    GOOD = "int weir_one(void) { return 1; }\nconst char *weir_two(int a, int b) { return a < b ? 0 : \"\"; }\n"

    def library(self, code):
        self.write("include/weir/all.h", self.HEADER)
        source = self.write("lib.c", code)
        library = self.root / "libtest.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        return library

    def check(self, code):
        status, output = tool("check-exports", self.root / "include", self.library(code))
        return status, output.replace(f"{self.root}/", "").splitlines()

    def test_what_is_declared_and_no_more(self):
        self.assertEqual(self.check(self.GOOD), (0, []))

    def test_an_internal_name(self):
        self.assertEqual(self.check(self.GOOD + "int str_append;\n"),
                         (1, ["libtest.so: exports str_append, which no public header declares"]))

    def test_a_promise_that_is_not_kept(self):
        self.assertEqual(self.check("int weir_one(void) { return 1; }\n"),
                         (1, ["libtest.so: does not define weir_two, which a public header declares"]))

    def test_headers_without_a_declaration(self):
        library = self.library(self.GOOD)
        self.write("include/weir/all.h", "")
        self.assertEqual(tool("check-exports", self.root / "include", library)[0], 1)


class Headers(Tree):
    def check(self, text):
        self.write("include/weir/a.h", text)
        return tool("check-headers", self.root / "include")

    def test_a_header_that_stands_alone(self):
        self.assertEqual(self.check("#include <stddef.h>\nstatic inline size_t one(void) { return 1; }\n"), (0, ""))

    def test_a_missing_include(self):
        code, output = self.check("size_t weir_size(void);\n")
        self.assertEqual(code, 1)
        self.assertIn("size_t", output)

    def test_c_that_is_not_cplusplus(self):
        code, output = self.check("struct s { int class; };\n")
        self.assertEqual(code, 1)
        self.assertIn("class", output)


class Docs(Tree):
    def check(self, *program):
        return tool("check-docs", self.root, *program)

    def test_links(self):
        self.write("docs/TOUR.md", "# The tour\n\n## One token's path\n")
        self.write("README.md", "[a](docs/TOUR.md) [b](docs/TOUR.md#one-tokens-path) [c](https://example.org/x) [d](#here)\n# here\n")
        self.assertEqual(self.check(), (0, ""))

    def test_links_that_lead_nowhere(self):
        self.write("docs/TOUR.md", "# The tour\n[x](../src/gone.c)\n")
        self.write("README.md", "[a](docs/TOUR.md#gone)\n")
        self.assertEqual(self.check(), (1, "README.md: the link docs/TOUR.md#gone leads to no heading\n"
                                        "docs/TOUR.md: the link ../src/gone.c leads to no file\n"))

    def test_the_manual_and_the_program(self):
        self.write("docs/weir.1", '.SS "run [MODEL]"\n\\-\\-top\\-k\n\\-\\-gone\n.SS "old MODEL"\n')
        program = self.write("weir", "#!/bin/sh\ncase $1 in\nhelp) echo '  --top-k N  as many; see --new' ;;\n"
                             "*) echo 'usage: weir COMMAND'; echo '  run    chat'; echo '  bench  measure' ;;\nesac\n")
        program.chmod(0o755)
        self.assertEqual(self.check(program), (1, "docs/weir.1: describes '--gone', which weir's help does not show\n"
                                               "docs/weir.1: describes 'old', which weir's help does not show\n"
                                               "docs/weir.1: has no entry for '--new', which weir's help shows\n"
                                               "docs/weir.1: has no entry for 'bench', which weir's help shows\n"))


class Setup(Tree):
    """tools/setup on a machine without packages: commands of ours stand in for the system's."""

    # What the script itself needs; make, gcc and the others are "not installed".
    BORROWED = ("bash", "env", "cat", "uname", "id")

    def setUp(self):
        super().setUp()
        (self.root / "bin").mkdir()
        for name in self.BORROWED:
            found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True, check=True)
            (self.root / "bin" / name).symlink_to(found.stdout.strip())
        self.log = self.root / "log"

    def command(self, name, script):
        file = self.root / "bin" / name
        file.unlink(missing_ok=True)
        self.write(f"bin/{name}", f"#!/usr/bin/env bash\n{script}\n").chmod(0o755)

    def setup(self, group="build"):
        environment = {**os.environ, "PATH": str(self.root / "bin"), "LOG": str(self.log)}
        return tool("setup", group, env=environment, stdin=subprocess.DEVNULL)

    def test_without_rights_it_names_the_command(self):
        self.command("id", "echo 1000")
        self.command("apt-get", 'echo "$@" >>"$LOG"')
        code, output = self.setup()
        self.assertEqual(code, 1)
        self.assertRegex(output, r"sudo apt-get install make gcc .*cmake ninja-build pkg-config libjansson-dev")
        self.assertFalse(self.log.exists())

    def test_as_root_it_installs_what_is_missing_and_no_more(self):
        self.command("id", "echo 0")
        self.command("make", "")
        self.command("apt-get", 'echo "$@" >>"$LOG"')
        code, output = self.setup()
        self.assertEqual((code, output.startswith("installing: gcc ")), (0, True))
        update, install = self.log.read_text().splitlines()
        self.assertIn("update", update)
        self.assertRegex(install, r"install -y --no-install-recommends gcc .*libutf8proc-dev")
        self.assertNotIn("libcmocka-dev", install)

    def test_the_check_group_holds_both(self):
        self.command("id", "echo 0")
        self.command("apt-get", 'echo "$@" >>"$LOG"')
        self.command("apt-cache", "exit 100")
        self.assertEqual(self.setup("check")[0], 0)
        install = self.log.read_text().splitlines()[1].split()
        self.assertTrue({"gcc", "libcmocka-dev", "shellcheck"} <= set(install))
        # A release that has no clang 14 gets the clang it has.
        self.assertTrue({"clang", "clang-format"} <= set(install))

    def test_a_failing_installation_fails(self):
        self.command("id", "echo 0")
        self.command("apt-get", '[[ " $* " != *" install "* ]]')
        self.assertNotEqual(self.setup()[0], 0)

    def test_another_system(self):
        code, output = self.setup()
        self.assertEqual(code, 1)
        self.assertIn("no apt-get", output)

    def test_usage(self):
        self.assertEqual(self.setup("everything")[0], 2)


class Check(Tree):
    """tools/check with stand-ins for the build: does it add up, and does it notice?"""

    def check(self, *stages, lint="exit 0", cmake="exit 0", ctest="exit 0"):
        script = self.write("tools/check", (TOOLS / "check").read_text())
        for name, body in (("tools/lint", lint), ("bin/cmake", cmake), ("bin/ctest", ctest)):
            self.write(name, f"#!/bin/sh\nmkdir -p build/check/release build/check/asan\n{body}\n").chmod(0o755)
        script.chmod(0o755)
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        run = subprocess.run([script, *stages], capture_output=True, text=True, env=environment)
        return run.returncode, run.stdout.splitlines()

    def test_the_sum_is_the_last_line(self):
        code, lines = self.check("lint", "release", "asan", ctest="echo '100% tests passed, 0 tests failed out of 20'")
        self.assertEqual((code, lines[-1]), (0, "41 passed, 0 failed"))

    def test_a_failing_test(self):
        code, lines = self.check("lint", "release", ctest="echo '97% tests passed, 1 tests failed out of 34'; exit 8")
        self.assertEqual((code, lines[-1]), (1, "34 passed, 1 failed"))

    def test_a_failing_build(self):
        code, lines = self.check("release", cmake="echo mistake.c:1; exit 1")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed"))
        self.assertIn("mistake.c:1", lines)

    def test_a_failing_lint(self):
        code, lines = self.check("lint", lint="exit 1")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed"))

    def test_no_test_at_all_is_a_failure(self):
        code, lines = self.check("release", ctest="echo 'No tests were found!!!'; exit 8")
        self.assertEqual((code, lines[-1]), (1, "0 passed, 1 failed"))

    def test_an_unknown_stage(self):
        self.assertEqual(self.check("relaese")[0], 2)


class Uninstall(Tree):
    def test_it_removes_what_the_list_names_and_nothing_else(self):
        for path in ("usr/bin/weir", "usr/include/weir/base.h", "usr/share/weir/models/demo/a b.json",
                     "usr/share/man/man1/weir.1", "usr/bin/other"):
            self.write(f"dest/{path}", "")
        manifest = self.write("manifest.txt", "/usr/bin/weir\n/usr/include/weir/base.h\n"
                              "/usr/share/weir/models/demo/a b.json\n/usr/share/man/man1/weir.1")
        self.assertEqual(tool("uninstall", manifest, self.root / "dest"), (0, ""))
        left = sorted(p.relative_to(self.root / "dest").as_posix() for p in (self.root / "dest").rglob("*"))
        self.assertEqual(left, ["usr", "usr/bin", "usr/bin/other", "usr/include", "usr/share", "usr/share/man",
                                "usr/share/man/man1"])

    def test_a_folder_with_a_strangers_file_stays(self):
        self.write("dest/usr/share/weir/models/mine", "")
        self.write("dest/usr/share/weir/models/demo/a", "")
        manifest = self.write("manifest.txt", "/usr/share/weir/models/demo/a")
        self.assertEqual(tool("uninstall", manifest, self.root / "dest")[0], 0)
        self.assertTrue((self.root / "dest/usr/share/weir/models/mine").exists())
        self.assertFalse((self.root / "dest/usr/share/weir/models/demo").exists())

    def test_without_a_list(self):
        self.assertEqual(tool("uninstall", self.root / "manifest.txt", "")[0], 1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
